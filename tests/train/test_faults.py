"""What the step makes of faults, for every optimizer, on 1 rank and on 2 where only the last one meets them.

SUREFOOT_TEST_DEVICE=cuda runs the same on a GPU a rank.
"""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import pytest
import torch

from surefoot.config.schema import OptimConfig

OPTIMIZERS = get_args(OptimConfig.model_fields["name"].annotation)
DEVICE = os.environ.get("SUREFOOT_TEST_DEVICE", "cpu")
SCRIPT = Path(__file__).with_name("ranks_faults.py")
Result = dict[str, Any]


@pytest.fixture(scope="module", params=[1, 2], ids=["1 rank", "2 ranks"])
def results(
    request: pytest.FixtureRequest,
    model_folder: Path,
    tmp_path_factory: pytest.TempPathFactory,
    torchrun: Callable[..., str],
) -> dict[str, Result]:
    output = tmp_path_factory.mktemp("faults") / "results.pt"
    torchrun(SCRIPT, str(model_folder), str(output), DEVICE, ranks=request.param, timeout=280)
    found: dict[str, Result] = torch.load(output)
    return found | {"ranks": {"count": request.param}}


@pytest.fixture(params=OPTIMIZERS)
def result(request: pytest.FixtureRequest, results: dict[str, Result]) -> Callable[[str], Result]:
    return lambda name: results[f"{request.param}: {name}"]


@pytest.mark.parametrize("place", ["first", "middle", "last"])
def test_an_overflow_anywhere_skips_everywhere(result: Callable[[str], Result], place: str) -> None:
    seen = result(f"overflow {place}")
    assert seen["told"] == [("skipped", "overflow", 1024.0, 512.0)]
    assert seen["untouched"] and seen["detail"] == "gradient"
    assert seen["then"] == "applied" and seen["updates"] == 2


@pytest.mark.parametrize(("name", "verdict"), [("floor", "skipped"), ("floor, halt", "halted"), ("static", "skipped")])
def test_a_scale_that_cannot_fall(result: Callable[[str], Result], name: str, verdict: str) -> None:
    seen, scale = result(name), 1024.0 if name == "static" else 4.0
    assert seen["told"] == [(verdict, "nonfinite_grad", scale, scale)]
    assert seen["untouched"] and seen["then"] == "applied"


def test_sixteen_overflows_lose_nothing(result: Callable[[str], Result]) -> None:
    seen = result("sixteen")
    scales = [2.0 ** (20 - n) for n in range(17)]
    assert [scale for _, _, scale, _ in seen["told"]] == scales
    assert seen["told"][-1] == ("applied", "ok", 2.0**20 / 65536, 2.0**20 / 65536)
    assert {reason for _, reason, _, _ in seen["told"][:-1]} == {"overflow"}
    assert seen["samples"] == 9 and seen["updates"] == 1


TRIED = [("skipped", "overflow", 2.0 ** (4 - n), 2.0 ** (3 - n)) for n in range(4)]  # 16 down to 2


@pytest.mark.parametrize("compute", ["fp16", "fp32"])
def test_a_nan_sample_is_no_overflow(result: Callable[[str], Result], compute: str) -> None:
    """In fp16 every scale down to the floor is tried; then the scale is what it was, and the reason the gradient."""
    scale, floor, before = (16.0, 1.0, TRIED) if compute == "fp16" else (1.0, 1.0, [])
    for policy, verdict in (("skip", "skipped"), ("halt", "halted"), ("drop_samples", "skipped")):
        seen = result(f"nan sample, {policy}, {compute}")
        assert seen["told"][: len(before)] == before
        assert seen["told"][len(before)] == (verdict, "nonfinite_grad", floor, scale)
        assert seen["scale"] == scale
        assert seen["untouched"] == (policy != "drop_samples")
    assert seen["told"][len(before) + 1 :] == [("applied", "ok", scale, scale)]
    assert seen["dropped"] == {4: "nonfinite_grad: its gradient is not finite"}
    assert seen["left"] == [0, 1, 2, 3, *range(5, 9)]


def test_several_nan_samples_are_dropped_together(result: Callable[[str], Result]) -> None:
    seen = result("nan samples")
    assert sorted(seen["dropped"]) == [0, 4, 8]
    assert seen["told"][len(TRIED) :] == [
        ("skipped", "nonfinite_grad", 1.0, 16.0),
        ("applied", "ok", 16.0, 16.0),
    ]


def test_nothing_is_trained_where_nothing_is_left(result: Callable[[str], Result]) -> None:
    seen = result("all nan")
    assert seen["told"] == [("skipped", "nonfinite_grad", 1.0, 1.0)]
    assert sorted(seen["dropped"]) == list(range(9)) and seen["untouched"]


@pytest.mark.parametrize("compute", ["fp16", "bf16", "fp32"])
def test_an_exception_on_one_rank_is_a_skip_on_all(
    result: Callable[[str], Result], results: dict[str, Result], compute: str
) -> None:
    seen, scale = result(f"error, {compute}"), 1024.0 if compute == "fp16" else 1.0
    assert seen["told"] == [("skipped", "error", scale, scale)]
    rank = "rank 1: " if results["ranks"]["count"] == 2 else ""
    assert seen["detail"] == f"{rank}OutOfMemoryError: no memory for this"
    assert seen["untouched"] and seen["then"] == "applied" and seen["updates"] == 2


@pytest.mark.parametrize("compute", ["fp16", "bf16", "fp32"])
def test_one_rank_s_hook_refuses_for_all(
    result: Callable[[str], Result], results: dict[str, Result], compute: str
) -> None:
    seen, scale = result(f"refused, {compute}"), 1024.0 if compute == "fp16" else 1.0
    assert seen["told"] == [("skipped", "hook", scale, scale)]
    assert seen["detail"].startswith("rank 1: ") == (results["ranks"]["count"] == 2)
    assert seen["detail"].endswith(": the head stood still")
    assert seen["untouched"] and seen["then"] == "applied"


def test_a_hook_ends_the_run(result: Callable[[str], Result]) -> None:
    assert result("hook halts")["told"] == [("halted", "user_policy", 1024.0, 1024.0)]
    broken = result("hook raises")
    assert broken["told"] == [("skipped", "error", 1024.0, 1024.0)]
    assert "KeyError: 'lm_head'" in broken["detail"] and broken["untouched"]


def test_ruined_weights_halt(result: Callable[[str], Result]) -> None:
    seen = result("ruined")
    assert [told[:2] for told in seen["told"]] == [("halted", "nonfinite_param")]
    assert seen["detail"].startswith("weights not finite: hf.model.layers.0.")


def test_a_stop_between_two_overflows(result: Callable[[str], Result]) -> None:
    seen = result("resumed")
    assert seen["used"] == [1024, 512, 256, 256, 256, 512, 512]
    assert seen["updates"] == 5
