"""What every position bias promises."""

import pytest
import torch

from src.layers.position_bias import ContinuousBias, PositionBias, TableBias
from src.layers.windows import window_coords

BIASES = {
    "table": lambda: TableBias((3, 4), num_heads=2, init_std=1.0),
    "table resized": lambda: TableBias((2, 5), num_heads=2, init_std=1.0).resized((3, 4)),
    "table resized geometrically": lambda: TableBias((2, 5), num_heads=2, init_std=1.0).resized((3, 4), "geometric"),
    "continuous": lambda: ContinuousBias((3, 4), num_heads=2),
    "continuous, pretrained": lambda: ContinuousBias((3, 4), num_heads=2, pretrained_window=(6, 5)),
    "continuous resized": lambda: ContinuousBias((2, 5), num_heads=2).resized((3, 4)),
}
COORDS = window_coords((3, 4), torch.device("cpu"))


@pytest.fixture(params=BIASES)
def bias(request):
    torch.manual_seed(0)
    return BIASES[request.param]()


def test_every_pair_of_places_has_a_value_for_each_head(bias):
    assert isinstance(bias, PositionBias)
    assert bias(COORDS, COORDS).shape == (2, 12, 12)
    assert bias(COORDS[:3], COORDS[:7]).shape == (2, 3, 7)
    assert bias(COORDS, COORDS).isfinite().all()


def test_coordinates_may_come_in_any_order(bias):
    queries, keys = torch.randperm(12), torch.randperm(12)
    expected = bias(COORDS, COORDS)[:, queries][:, :, keys]
    assert torch.equal(bias(COORDS[queries], COORDS[keys]), expected)


def test_heads_differ_and_places_matter(bias):
    values = bias(COORDS, COORDS)
    assert not torch.allclose(values[0], values[1])
    assert values.std((1, 2)).min() > 0


def test_every_parameter_learns(bias):
    bias(COORDS, COORDS).square().sum().backward()
    assert all(parameter.grad is not None and parameter.grad.isfinite().all() for parameter in bias.parameters())


def test_the_state_loads_into_another(bias, request):
    other = BIASES[request.node.callspec.params["bias"]]()
    assert not torch.equal(other(COORDS, COORDS), bias(COORDS, COORDS))
    other.load_state_dict(bias.state_dict())
    assert torch.equal(other(COORDS, COORDS), bias(COORDS, COORDS))
