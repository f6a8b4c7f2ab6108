"""c3-dp-imbalance: the token mean is over all ranks' tokens, and a rank without any neither counts nor hangs.

Source: PrimeIntellect-ai/prime-rl#2358. The general case, real models and ragged samples, is tests/train/test_ranks.py.
"""

from collections.abc import Callable
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("ranks_c3.py")


@pytest.mark.parametrize("ranks", [1, 2])
def test_gradients_are_those_of_the_joined_batch(torchrun: Callable[..., str], ranks: int) -> None:
    said = torchrun(SCRIPT, ranks=ranks, timeout=60)
    lines = dict(line.rsplit(": ", 1) for line in said.splitlines() if ": " in line)
    assert float(lines["both"]) == pytest.approx(2.0, abs=1e-6)
    assert float(lines["two micro-batches, other rank empty"]) == pytest.approx(1.0, abs=1e-6)
