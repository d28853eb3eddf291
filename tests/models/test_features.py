import pytest
import torch

from src.models.features import FeatureSpec, cells, check_channels, check_features

SPECS = (FeatureSpec(3, 4), FeatureSpec(5, 8))


@pytest.mark.parametrize(
    ("size", "expected"), [((1, 1), (1, 1)), ((500, 333), (125, 84)), ((36, 60), (9, 15)), ((5, 4), (2, 1))]
)
def test_size_of_a_level_is_rounded_up(size, expected):
    assert FeatureSpec(1, 4).size(*size) == expected
    assert cells(size, 4) == expected


def test_missing_level_is_named():
    with pytest.raises(ValueError, match="MyDecoder must have 2 feature levels, got 1"):
        check_channels([torch.zeros(1, 3, 2, 2)], SPECS, "MyDecoder")


def test_wrong_channels_name_the_level_and_both_numbers():
    with pytest.raises(ValueError, match=r"level 1 must be \(B, 5, h, w\), got \(1, 7, 1, 1\)"):
        check_channels([torch.zeros(1, 3, 2, 2), torch.zeros(1, 7, 1, 1)], SPECS, "MyDecoder")


def test_channels_last_maps_are_refused():
    with pytest.raises(ValueError, match="level 0"):
        check_channels([torch.zeros(1, 2, 2, 3), torch.zeros(1, 1, 1, 5)], SPECS, "MyDecoder")


def test_wrong_cells_name_the_level_and_the_stride():
    with pytest.raises(ValueError, match=r"level 1 of stride 8 must have \(2, 2\) cells .* got \(1, 2\)"):
        check_features([torch.zeros(1, 3, 3, 4), torch.zeros(1, 5, 1, 2)], SPECS, (10, 16), "MyEncoder")
