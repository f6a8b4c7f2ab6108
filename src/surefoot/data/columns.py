"""What is taken from a row, and by which keys."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from surefoot.config.nearest import nearest_choice
from surefoot.data.message import build_messages, kind_of
from surefoot.data.row import RawRow
from surefoot.types.errors import DataError
from surefoot.types.rollout import Prompt


@dataclass(frozen=True, slots=True)
class Columns:
    """A key is looked up as it is written, then as a path into objects. "" is none, for all but `input_key`."""

    input_key: str
    label_key: str
    metadata_key: str
    id_key: str
    system: str
    template: str
    env: str

    def read(self, raw: RawRow) -> Prompt:
        """The prompt of a row. Raises `DataError` with the reason; the caller knows the place."""
        row = raw.read()
        messages = build_messages(_take(row, self.input_key), system=self.system, template=self.template)
        label = _take(row, self.label_key) if self.label_key else None
        metadata = _take(row, self.metadata_key) if self.metadata_key else {}
        if not isinstance(metadata, dict):
            raise DataError(f"{self.metadata_key!r} is {kind_of(metadata)}, not an object")
        row_id = _find(row, self.id_key) if self.id_key else None
        payload = {"label": label, "metadata": metadata, "origin": raw.origin}
        return Prompt(
            id=raw.name if row_id is None else _text_id(row_id), env=self.env, messages=messages, payload=payload
        )

    def choose(self, names: Sequence[str]) -> list[str]:
        """Of a table's columns those that `read` needs. Raises `DataError` for one that is missing or there twice."""
        chosen = []
        for key in (self.input_key, self.label_key, self.metadata_key, self.id_key):
            name = key if key in names else key.partition(".")[0]
            if name in names and names.count(name) > 1:
                raise DataError(f"the column {name!r} stands twice")
            if name in names:
                chosen.append(name)
            elif key and key != self.id_key:
                raise DataError(_missing("column", key, names))
        return list(dict.fromkeys(chosen))


def _take(row: Mapping[str, Any], key: str) -> Any:
    """The value at `key`; `DataError` where there is none, with the nearest name.

    >>> _take({"reward_model": {"ground_truth": "4"}}, "reward_model.ground_truth")
    '4'
    """
    if key in row:
        return row[key]
    value: Any = row
    done: list[str] = []
    for part in key.split("."):
        if not isinstance(value, dict):
            raise DataError(f"no key {key!r}: {'.'.join(done)!r} is {kind_of(value)}, not an object")
        if part not in value:
            raise DataError(_missing("key", part, list(value)) + (f" in {'.'.join(done)!r}" if done else ""))
        value = value[part]
        done.append(part)
    return value


def _find(row: Mapping[str, Any], key: str) -> Any:
    """As `_take`, but None where there is nothing: null and absent are one in a table's column."""
    if key in row:
        return row[key]
    value: Any = row
    for part in key.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    return value


def _missing(what: str, key: str, names: Sequence[str]) -> str:
    near = nearest_choice(key, list(names))
    return f"no {what} {key!r}; " + (f"did you mean {near!r}?" if near else f"it has {', '.join(names)}")


def _text_id(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int) or value == "":
        raise DataError(f"its id is {value!r}, not text or an integer")
    return str(value)
