"""The ledger: one row for each attempt at an update, each prompt drawn, each sample made. One writer.

        the run's driver                         anyone
    record_draws ----+                 +---- surefoot ledger, dashboards
    commit_step -----+-> ledger.sqlite +---- (LedgerView, read-only)
    record_event ----+     + WAL
    supersede -------+

A call is one transaction: after `kill -9` it is there whole or not at all. A second writer is refused.
"""

import fcntl
import io
import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Self

from surefoot.observe.ledger_view import BUSY_SECONDS, FORMAT, LedgerView
from surefoot.observe.rows import EVENTS, SAMPLES, STEPS, TABLES, PromptFate, SampleRow, StepRow, Table, to_sql
from surefoot.types.errors import SurefootError, UsageError
from surefoot.types.rollout import Draw

SYNCED = "PRAGMA synchronous = FULL"  # a checkpoint must never be newer than its ledger
SUPERSEDED = "superseded"  # the event that counts resumes


class Ledger(LedgerView):
    """The writing half. Every method commits before it returns; a failure raises SurefootError and changes nothing."""

    _lock: io.TextIOWrapper
    _wal: bool

    @classmethod
    def open(cls, path: Path) -> Self:
        """Opens or makes the ledger. UsageError where another process is writing it."""
        lock = _lock(path)
        try:
            ledger = cls(path, sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None))
            ledger._lock = lock
            ledger._wal = set_journal_mode(ledger._db) == "wal"
            ledger._db.execute(SYNCED)
            ledger._make_tables()
            ledger._check_format()
        except sqlite3.Error as error:
            lock.close()
            raise SurefootError(f"{path}: cannot be opened as a ledger: {error}") from error
        except BaseException:
            lock.close()
            raise
        return ledger

    def close(self) -> None:
        super().close()
        self._lock.close()

    def record_draws(self, step: int, draws: Sequence[Draw]) -> None:
        """The prompts drawn for a step, in flight from now on. Draws lost with the power are simply drawn again."""
        rows = [(d.number, d.epoch, d.row, d.prompt.id, step) for d in draws]
        with self._transaction(synced=not self._wal):
            self._db.executemany(
                "INSERT INTO prompts (draw, epoch, row, prompt_id, drawn_at_step, fate, reason, step) "
                "VALUES (?, ?, ?, ?, ?, 'in_flight', '', NULL)",
                rows,
            )

    def commit_step(self, rows: Sequence[StepRow], fates: Sequence[PromptFate], samples: Sequence[SampleRow]) -> None:
        """Attempts, the fates of the prompts they decided, and every sample, all or nothing."""
        with self._transaction():
            self._insert(STEPS, rows)
            for fate in fates:
                self._decide(fate)
            self._insert(SAMPLES, samples)

    def record_event(self, kind: str, detail: str) -> None:
        """Something that happened to the run: an engine lost, a sync verified, a checkpoint."""
        with self._transaction():
            self._note(kind, detail)

    def supersede(self, after_step: int, *, first_draw: int | None = None) -> int:
        """A resume at the checkpoint of `after_step`: marks what came later, as it will happen again.

        Prompts drawn before and decided later are in flight once more, as they were at the checkpoint.
        `first_draw`: number of the first draw the resumed run makes, where draws run ahead of steps.
        Returns how many rows were marked.
        """
        with self._transaction():
            (earlier,) = self._db.execute("SELECT count(*) FROM events WHERE kind = ?", (SUPERSEDED,)).fetchone()
            values = {"n": earlier + 1, "after": after_step, "first": first_draw}
            again = "(drawn_at_step > :after OR (:first IS NOT NULL AND draw >= :first))"
            marked = sum(
                self._db.execute(
                    f"UPDATE {table} SET superseded = :n WHERE superseded = 0 AND ({which})", values
                ).rowcount
                for table, which in (
                    ("steps", "step > :after"),
                    ("samples", "step > :after"),
                    ("prompts", f"{again} OR step > :after"),
                )
            )
            self._db.execute(
                "INSERT INTO prompts (draw, epoch, row, prompt_id, drawn_at_step, fate, reason, step) "
                "SELECT draw, epoch, row, prompt_id, drawn_at_step, 'in_flight', '', NULL FROM prompts "
                f"WHERE superseded = :n AND NOT {again}",
                values,
            )
            self._note(SUPERSEDED, f"{marked} rows after step {after_step}")
        return marked

    def _decide(self, fate: PromptFate) -> None:
        if fate.fate != "trained" and not fate.reason:
            raise SurefootError(f"{self.path}: draw {fate.draw} is {fate.fate} without a reason")
        changed = self._db.execute(
            "UPDATE prompts SET fate = ?, reason = ?, step = ? "
            "WHERE draw = ? AND superseded = 0 AND fate = 'in_flight'",
            (fate.fate, fate.reason, fate.step, fate.draw),
        ).rowcount
        if changed != 1:
            raise SurefootError(f"{self.path}: draw {fate.draw} cannot become {fate.fate}: it is not in flight")

    def _insert(self, table: Table, rows: Sequence[StepRow] | Sequence[SampleRow]) -> None:
        names = ", ".join(table.columns)
        marks = ", ".join("?" for _ in table.columns)
        self._db.executemany(
            f"INSERT INTO {table.name} ({names}) VALUES ({marks})", [to_sql(table, row) for row in rows]
        )

    def _note(self, kind: str, detail: str) -> None:
        self._db.execute("INSERT INTO events (at, kind, detail) VALUES (?, ?, ?)", (time.time(), kind, detail))

    def _make_tables(self) -> None:
        with self._transaction():
            (tables,) = self._db.execute("SELECT count(*) FROM sqlite_master").fetchone()
            if tables == 0:
                for statement in (*(table.create for table in TABLES), EVENTS, f"PRAGMA user_version = {FORMAT}"):
                    self._db.execute(statement)

    @contextmanager
    def _transaction(self, *, synced: bool = True) -> Iterator[None]:
        """`synced` False: there after a kill, and after a power failure once a later transaction was synced."""
        try:
            self._db.execute(SYNCED if synced else "PRAGMA synchronous = NORMAL")
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._db.execute("COMMIT")
            except BaseException:
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")
                raise
        except sqlite3.Error as error:
            raise SurefootError(f"{self.path}: {error}") from error


def set_journal_mode(connection: sqlite3.Connection) -> str:
    """WAL lets others read while the run writes; where it cannot be set (network file systems) a rollback journal."""
    try:
        (mode,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
    except sqlite3.OperationalError:
        mode = "refused"
    if mode != "wal":
        (mode,) = connection.execute("PRAGMA journal_mode = DELETE").fetchone()
    return str(mode)


def _lock(path: Path) -> io.TextIOWrapper:
    """Held while the ledger is open for writing; the kernel releases it however the process ends.

    A POSIX record lock, as a forked worker that outlives its parent must not keep it.
    """
    lock = open(path.with_suffix(".lock"), "a")  # noqa: SIM115 (closed by `close`)
    try:
        fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        lock.close()
        raise UsageError(f"{path}: another process is writing this run ({error.strerror})") from error
    return lock
