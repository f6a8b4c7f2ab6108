"""Instructions that a program can check, in the form of IFEval (arXiv 2311.07911) and IFBench (2507.02833)."""

import unicodedata
from collections.abc import Mapping, Sequence
from typing import Any

from surefoot.config.nearest import nearest_choice
from surefoot.envs.rewards.constraints.kinds import Constraint
from surefoot.envs.rewards.constraints.table import CONSTRAINTS
from surefoot.envs.rewards.options import one_of
from surefoot.envs.rewards.thinking import final_part
from surefoot.types.errors import RewardError

GRADES = ("all", "share")


def score(prompt: str, response: str, label: Any, metadata: Mapping[str, Any], *, grade: str = "all") -> float:
    """`grade` = "all": 1.0 where every instruction is followed, else 0.0; "share": the share that is.

    `metadata["instruction_id_list"]` names the instructions, `metadata["kwargs"]` has an object of arguments for each;
    the label is not read. What stands before </think> is not read, and an empty response follows nothing.
    Raises `RewardError` for metadata of `check`.

    >>> row = {"instruction_id_list": ["punctuation:no_comma", "startend:quotation"], "kwargs": [{}, {}]}
    >>> score("", "No commas here.", None, row), score("", "No commas here.", None, row, grade="share")
    (0.0, 0.5)
    """
    followed = [holds for _, holds in verdicts(response, metadata)]
    one_of("grade", grade, GRADES)
    return float(all(followed)) if grade == "all" else sum(followed) / len(followed)


def check(label: Any, metadata: Mapping[str, Any], *, grade: str = "all") -> None:
    """Raise `RewardError` for an instruction that is not known, with the nearest, and for arguments it cannot take."""
    one_of("grade", grade, GRADES)
    _instructions(metadata)


def verdicts(response: str, metadata: Mapping[str, Any]) -> list[tuple[str, bool]]:
    """Each instruction's name, and whether it is followed."""
    text = unicodedata.normalize("NFC", final_part(response) or "")
    asked = _instructions(metadata)
    return [(name, bool(text.strip()) and constraint.holds(text, **given)) for name, constraint, given in asked]


def _instructions(metadata: Mapping[str, Any]) -> list[tuple[str, Constraint, dict[str, Any]]]:
    names, arguments = _lists(metadata)
    found = []
    for name, given in zip(names, arguments, strict=True):
        if name not in CONSTRAINTS:
            near = nearest_choice(str(name), list(CONSTRAINTS))
            raise RewardError(f"there is no instruction {name!r}" + (f"; did you mean {near!r}?" if near else ""))
        if not isinstance(given, Mapping):
            raise RewardError(f"{name}: its arguments {given!r} are no object")
        try:
            found.append((name, CONSTRAINTS[name], CONSTRAINTS[name].read(given)))
        except RewardError as error:
            raise RewardError(f"{name}: {error}") from error
    return found


def _lists(metadata: Mapping[str, Any]) -> tuple[Sequence[Any], Sequence[Any]]:
    """Names and arguments, equally many; no arguments at all may be left out, or null."""
    names = metadata.get("instruction_id_list")
    if not isinstance(names, list | tuple) or not names:
        raise RewardError("metadata's instruction_id_list is no list, or empty")
    arguments = metadata.get("kwargs")
    if arguments is None:
        arguments = [{}] * len(names)
    if not isinstance(arguments, list | tuple) or len(arguments) != len(names):
        raise RewardError(f"metadata's kwargs is not a list with one object for each of {len(names)} instructions")
    return names, [{} if given is None else given for given in arguments]
