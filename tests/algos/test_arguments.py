import pytest
import torch

from surefoot.algos.arguments import check_bool, check_same_length, look_up, number_ids
from surefoot.types.errors import ConfigError, UsageError


@pytest.mark.parametrize("shape", [(), (1,), (4,), (3, 1), (1, 3)])
def test_shapes_that_would_broadcast_are_refused_by_name(shape: tuple[int, ...]) -> None:
    with pytest.raises(UsageError, match=r"a \[3\], b "):
        check_same_length(a=torch.zeros(3), b=torch.zeros(shape))


def test_equal_shapes_of_two_dimensions_are_refused() -> None:
    with pytest.raises(UsageError):
        check_same_length(a=torch.zeros(2, 2), b=torch.zeros(2, 2))


def test_one_length_passes_zero_too() -> None:
    check_same_length(a=torch.zeros(3), b=torch.ones(3, dtype=torch.bool))
    check_same_length(a=torch.zeros(0), b=torch.zeros(0))


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.uint8])
def test_a_mask_must_be_bool(dtype: torch.dtype) -> None:
    check_bool(mask=torch.ones(2, dtype=torch.bool))
    with pytest.raises(UsageError, match="mask"):
        check_bool(mask=torch.ones(2, dtype=dtype))


def test_ids_are_renumbered_whatever_their_values() -> None:
    count, index_N = number_ids(torch.tensor([9, -4, 9, 2**40]), "ids")
    assert count == 3
    assert index_N.tolist() == [1, 0, 1, 2]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bool])
def test_ids_must_be_integers(dtype: torch.dtype) -> None:
    with pytest.raises(UsageError, match="group_ids"):
        number_ids(torch.ones(2, dtype=dtype), "group_ids")


def test_an_unknown_name_gives_key_choices_and_nearest() -> None:
    assert look_up({"k1": 1}, "k1", "algo.kl_kind") == 1
    with pytest.raises(ConfigError, match=r"algo.aggregation: unknown 'token-mean'.*did you mean 'token_mean'"):
        look_up({"token_mean": 1, "constant": 2}, "token-mean", "algo.aggregation")
