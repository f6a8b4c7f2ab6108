"""What a constraint is, and the values that its arguments may have."""

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from surefoot.config.nearest import nearest_choice
from surefoot.envs.rewards.options import is_number
from surefoot.types.errors import RewardError

Relation = Callable[[int, int], bool]
RELATIONS: Mapping[str, Relation] = {
    "less than": operator.lt,
    "at least": operator.ge,
    "at most": operator.le,
    "more than": operator.gt,
    "exactly": operator.eq,
}


@dataclass(frozen=True, slots=True)
class Constraint:
    """`holds(response, **arguments)`; `takes` says of each argument how its value is read, or `ValueError` raised.

    `possible(**arguments)` is False where no response could do.
    """

    holds: Callable[..., bool]
    takes: Mapping[str, Callable[[Any], Any]]
    possible: Callable[..., bool] = lambda **arguments: True
    ignores: tuple[str, ...] = ()  # arguments that only the instruction's wording needs

    def read(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments; null is as if it were not there, as in tables that have a column for every argument.

        Raises `RewardError` for one that is missing, not known or has an impossible value.
        """
        given = {name: value for name, value in given.items() if value is not None and name not in self.ignores}
        for name in given:
            if name not in self.takes:
                near = nearest_choice(name, list(self.takes))
                hint = f"did you mean {near!r}?" if near else f"it takes {', '.join(self.takes) or 'none'}"
                raise RewardError(f"there is no argument {name!r}; {hint}")
        missing = [name for name in self.takes if name not in given]
        if missing:
            raise RewardError(f"the argument {missing[0]!r} is missing")
        values = {name: _value(name, read, given[name]) for name, read in self.takes.items()}
        less_than_nothing = operator.lt in values.values() and 0 in values.values()
        if less_than_nothing or not self.possible(**values):
            raise RewardError(f"no response can do with {given}")
        return values


def _value(name: str, read: Callable[[Any], Any], value: Any) -> Any:
    try:
        return read(value)
    except ValueError as error:
        raise RewardError(f"{name} = {value!r} is {error}") from error


def text(value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ValueError("not text, or empty")
    return value.strip()


def texts(value: Any) -> list[str]:
    if not isinstance(value, list | tuple) or not value:
        raise ValueError("not a list of texts, or empty")
    return [text(one) for one in value]


def count(value: Any) -> int:
    """4.0 is 4: tables with gaps make floats of integers."""
    if not is_number(value) or value != int(value) or value < 0:
        raise ValueError("no count: a whole number from 0")
    return int(value)


def place(value: Any) -> int:
    """Counted from 1."""
    number = count(value)
    if number == 0:
        raise ValueError("no place: they are counted from 1")
    return number


def character(value: Any) -> str:
    if not isinstance(value, str) or len(value.strip()) != 1:
        raise ValueError("not one character")
    return value.strip().casefold()


def relation(value: Any) -> Relation:
    if not isinstance(value, str) or value not in RELATIONS:
        raise ValueError(f"none of {', '.join(RELATIONS)}")
    return RELATIONS[value]
