"""Reading a run's ledger, also while the run goes on. Rows that a resume superseded are left out."""

import hashlib
import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from surefoot.observe.rows import STEPS, TABLES, StepRow, Table, from_sql
from surefoot.types.errors import SurefootError, UsageError

FORMAT = 2  # of the tables; stored as SQLite's user_version
READING = (sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE)
BUSY_SECONDS = 30.0  # how long to wait for a lock that another process holds for a moment


@dataclass(frozen=True, slots=True)
class Balance:
    """Where every drawn prompt is. `dropped`: reason -> count."""

    drawn: int
    trained: int
    partly_trained: int
    dropped: Mapping[str, int]
    in_flight: int

    @property
    def unaccounted(self) -> int:
        """0 where the books balance."""
        return self.drawn - self.trained - self.partly_trained - sum(self.dropped.values()) - self.in_flight


class LedgerView:
    """The reading half; `LedgerView.read` opens a ledger that some other process may be writing."""

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        self.path = path
        self._db = connection

    @staticmethod
    def read(path: Path) -> "LedgerView":
        """UsageError where there is no ledger."""
        if not path.is_file():
            raise UsageError(f"{path}: there is no ledger")
        try:
            view = LedgerView(path, _connect_read_only(path))
            view._check_format()
        except sqlite3.Error as error:
            raise SurefootError(f"{path}: cannot be read as a ledger: {error}") from error
        return view

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._db.close()

    def steps(self) -> list[StepRow]:
        """Every attempt, in order."""
        names = ", ".join(STEPS.columns)
        rows = self._db.execute(f"SELECT {names} FROM steps WHERE superseded = 0 ORDER BY step, attempt")
        return [StepRow(**from_sql(STEPS, dict(zip(STEPS.columns, row, strict=True)))) for row in rows]

    def balance(self) -> Balance:
        counts = self._db.execute(
            "SELECT fate, CASE WHEN fate = 'dropped' THEN reason ELSE '' END, count(*) FROM prompts "
            "WHERE superseded = 0 GROUP BY 1, 2"
        ).fetchall()
        of = {fate: number for fate, _, number in counts if fate != "dropped"}
        dropped = {reason: number for fate, reason, number in counts if fate == "dropped"}
        return Balance(
            drawn=sum(number for _, _, number in counts),
            trained=of.get("trained", 0),
            partly_trained=of.get("partly_trained", 0),
            dropped=dropped,
            in_flight=of.get("in_flight", 0),
        )

    def digest(self) -> str:
        """SHA-256 of what two equal runs share: current rows in key order, floats to the last bit, no clocks."""
        digest = hashlib.sha256()
        self._db.execute("BEGIN")  # one snapshot for all tables
        try:
            for table in TABLES:
                digest.update(f"{table.name}\n".encode())
                self._digest_table(table, digest.update)
        finally:
            self._db.execute("COMMIT")
        return digest.hexdigest()

    def query(self, sql: str) -> tuple[list[str], list[tuple[Any, ...]]]:
        """Column names and rows of one SELECT. UsageError where it is anything else, or wrong."""
        self._db.set_authorizer(_allow_reading)
        try:
            cursor = self._db.execute(sql)
            rows = cursor.fetchall()
        except (sqlite3.Error, sqlite3.Warning) as error:
            raise UsageError(f"the query failed: {error} (only one SELECT is allowed)") from error
        finally:
            self._db.set_authorizer(None)
        return [column[0] for column in cursor.description or ()], rows

    def _digest_table(self, table: Table, update: Any) -> None:
        columns, key = ", ".join(table.repeated), ", ".join(table.key)
        kinds = [table.columns[name] for name in table.repeated]
        for row in self._db.execute(f"SELECT {columns} FROM {table.name} WHERE superseded = 0 ORDER BY {key}"):
            for kind, value in zip(kinds, row, strict=True):
                update(_exact(kind, value))
            update(b"\n")

    def _check_format(self) -> None:
        version = self._db.execute("PRAGMA user_version").fetchone()[0]
        if version != FORMAT:
            raise SurefootError(f"{self.path}: ledger format {version}, this version reads {FORMAT}")


def _connect_read_only(path: Path) -> sqlite3.Connection:
    """Opens without changing anything, also a finished ledger in a folder that cannot be written to.

    There SQLite has no room for the shared memory of WAL, and needs none.
    """
    uri = path.absolute().as_uri()
    connection = sqlite3.connect(f"{uri}?mode=ro", uri=True, timeout=BUSY_SECONDS, isolation_level=None)
    try:
        connection.execute("SELECT count(*) FROM sqlite_master")
    except sqlite3.OperationalError:
        connection.close()
        if path.with_name(path.name + "-wal").exists():
            raise
        return sqlite3.connect(f"{uri}?mode=ro&immutable=1", uri=True, isolation_level=None)
    return connection


def _allow_reading(action: int, *_: str | None) -> int:
    return sqlite3.SQLITE_OK if action in READING else sqlite3.SQLITE_DENY


def _exact(kind: str, value: Any) -> bytes:
    """A value without ambiguity: floats in hex, text with its length.

    >>> _exact("REAL", 0.1), _exact("REAL", "nan"), _exact("TEXT", "ok"), _exact("INTEGER", None)
    (b'f0x1.999999999999ap-4;', b'fnan;', b't2:ok;', b'n;')
    """
    if value is None:
        return b"n;"
    if kind.startswith("REAL"):
        return f"f{float(value).hex()};".encode()
    if kind.startswith("INTEGER"):
        return f"i{value};".encode()
    text = value.encode()
    return b"t%d:%b;" % (len(text), text)
