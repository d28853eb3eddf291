import math

import pytest
import torch
from torch import nn

from src.layers.position_bias import ContinuousBias, PositionBias
from src.layers.windows import window_coords
from tests.layers.largest_tensor import LargestTensor

CPU = torch.device("cpu")


def random_bias(window, num_heads=2, pretrained=None, hidden=16):
    torch.manual_seed(0)
    bias = ContinuousBias(window, num_heads, pretrained, hidden).double()
    for parameter in bias.parameters():
        nn.init.normal_(parameter)
    return bias


def naive(bias, query, key, known):
    """The bias of each head for one pair of places, number by number."""
    coords = []
    for q, k, reach in zip(query, key, known, strict=True):
        x = 8 * (q - k) / max(reach - 1, 1)
        coords.append(math.copysign(math.log2(abs(x) + 1) / 3, x))
    first, last = bias.mlp[0], bias.mlp[2]
    hidden = [
        max(sum(w * x for w, x in zip(row, coords, strict=True)) + b, 0.0)
        for row, b in zip(first.weight.tolist(), first.bias.tolist(), strict=True)
    ]
    sums = [sum(w * x for w, x in zip(row, hidden, strict=True)) for row in last.weight.tolist()]
    return [16 / (1 + math.exp(-x)) for x in sums]


@pytest.mark.parametrize(
    ("window", "pretrained"),
    [((3, 3), None), ((2, 4), None), ((1, 5), None), ((1, 1), None), ((3, 4), (6, 2)), ((4, 3), (1, 1)), ((3, 2), 0)],
)
@torch.no_grad()
def test_each_pair_gets_the_value_of_its_offset(window, pretrained):
    bias = random_bias(window, pretrained=(0, 0) if pretrained == 0 else pretrained)
    coords = window_coords(window, CPU)
    values = bias(coords, coords)
    assert values.dtype == torch.float64
    for i, query in enumerate(coords.tolist()):
        for j, key in enumerate(coords.tolist()):
            assert values[:, i, j].tolist() == pytest.approx(naive(bias, query, key, pretrained or window), abs=1e-11)


@torch.no_grad()
def test_keys_beyond_the_window_and_places_between_tokens_have_a_bias_too():
    bias = random_bias((3, 4))
    query = torch.tensor([[0.0, 0.0], [2.5, -1.25]], dtype=torch.float64)
    key = torch.tensor([[-40.0, 3.0], [100.0, -7.0], [0.5, 0.5]], dtype=torch.float64)
    values = bias(query, key)
    for i, j in [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2)]:
        expected = naive(bias, query[i].tolist(), key[j].tolist(), (3, 4))
        assert values[:, i, j].tolist() == pytest.approx(expected, abs=1e-11)


@pytest.mark.parametrize("pretrained", [None, (3,)])
@torch.no_grad()
def test_a_sequence_has_one_axis(pretrained):
    bias = random_bias((5,), pretrained=pretrained)
    coords = torch.arange(5)[:, None]
    values = bias(coords, coords)
    assert values.shape == (2, 5, 5)
    assert bias.mlp[0].in_features == 1
    assert values[:, 4, 1].tolist() == pytest.approx(naive(bias, [4], [1], pretrained or (5,)), abs=1e-11)


@torch.no_grad()
def test_only_offsets_count():
    bias = random_bias((3, 4))
    coords = window_coords((3, 4), CPU)
    assert torch.equal(bias(coords + 5, coords + 5), bias(coords, coords))


def test_the_network_runs_once_for_each_distinct_offset():
    bias = random_bias((6, 6), hidden=64)
    coords = window_coords((6, 6), CPU)
    bias(coords, coords)
    with LargestTensor() as largest:
        bias(coords, coords)
    assert largest.numel == 11 * 11 * 64


def test_the_network_is_the_whole_state():
    bias = ContinuousBias((2, 4), 3, pretrained_window=(5, 6))
    bias(window_coords((2, 4), CPU), window_coords((2, 4), CPU))
    assert {name: tuple(value.shape) for name, value in bias.state_dict().items()} == {
        "mlp.0.weight": (512, 2),
        "mlp.0.bias": (512,),
        "mlp.2.weight": (3, 512),
    }
    assert list(bias.buffers()) == []


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@torch.no_grad()
def test_half_precision_weights_are_computed_with_in_float32(dtype):
    bias = random_bias((7, 7)).to(dtype)
    coords = window_coords((7, 7), CPU)
    values = bias(coords, coords)
    assert values.dtype == torch.float32
    assert torch.equal(values, bias.float()(coords, coords))


@torch.no_grad()
def test_autocast_does_not_reach_the_network():
    bias = random_bias((7, 7)).float()
    coords = window_coords((7, 7), CPU)
    with torch.autocast("cpu", torch.bfloat16):
        values = bias(coords, coords)
    assert torch.equal(values, bias(coords, coords))


class Biased(nn.Module):
    def __init__(self, bias, apart):
        super().__init__()
        self.bias = bias
        self.apart = apart

    def forward(self, x):
        coords = window_coords(self.bias.window, x.device)
        return x + self.bias(coords, coords + 9 if self.apart else coords)


@pytest.mark.parametrize("apart", [False, True])
@pytest.mark.parametrize("window", [(3, 4), (1, 1), (5, 2)])
@torch.no_grad()
def test_traced_graphs_give_the_same(window, apart):
    model, x = Biased(random_bias(window), apart), torch.zeros(1, dtype=torch.float64)
    expected = model(x)
    exported = torch.export.export(model, (x,)).module()
    assert torch.allclose(exported(x), expected, rtol=0, atol=1e-12)
    compiled = torch.compile(model, backend="eager", fullgraph=True)
    assert torch.allclose(compiled(x), expected, rtol=0, atol=1e-12)


def test_shapes_follow_on_the_meta_device():
    with torch.device("meta"):
        bias = ContinuousBias((3, 4), 2)
    coords = window_coords((3, 4), torch.device("meta"))
    assert bias(coords, coords).shape == (2, 12, 12)
    assert bias(coords[:3], coords).shape == (2, 3, 12)


def test_training_follows_inference_mode():
    bias, coords = random_bias((3, 4)), window_coords((3, 4), CPU)
    with torch.inference_mode():
        bias(coords, coords)
    bias(coords, coords).sum().backward()
    assert bias.mlp[0].weight.grad.any()


@pytest.mark.parametrize("pretrained", [None, (6, 3)])
@torch.no_grad()
def test_another_window_keeps_the_function_of_offsets(pretrained):
    bias = random_bias((3, 4), pretrained=pretrained)
    resized = bias.resized((5, 2))
    assert isinstance(resized, PositionBias)
    assert (resized.window, bias.window) == ((5, 2), (3, 4))
    assert resized.pretrained_window == (pretrained or (3, 4))
    coords = torch.tensor([[0, 0], [2, 1], [4, 3]])
    assert torch.equal(resized(coords, coords), bias(coords, coords))
    assert not torch.allclose(bias(coords, coords), random_bias((5, 2))(coords, coords))
    assert resized.mlp[0].weight is not bias.mlp[0].weight
    assert resized.mlp[0].weight.requires_grad
    assert resized.resized((3, 4)).pretrained_window == (pretrained or (3, 4))
    assert random_bias((3, 4), hidden=8).bfloat16().resized((5, 2)).mlp[2].weight.dtype == torch.bfloat16


def test_hidden_is_the_width_of_the_network():
    assert ContinuousBias((3, 3), 2).mlp[0].out_features == 512
    assert ContinuousBias((3, 3), 2, hidden=7).mlp[0].out_features == 7


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (((0, 3), 1), "window must be 1 token or more along one or two axes, got"),
        (((2, 3, 4), 1), "window must be 1 token or more along one or two axes, got"),
        (((3, 3), 0), "num_heads and hidden must be at least 1, got 0 and 512"),
        (((3, 3), 1, None, 0), "num_heads and hidden must be at least 1, got 1 and 0"),
        (((3, 3), 1, (0, 4)), "pretrained_window must be 1 token or more along each of the window's 2 axes"),
        (((3, 3), 1, (-1, 4)), "pretrained_window must be"),
        (((3, 3), 1, (4,)), "pretrained_window must be"),
    ],
)
def test_unusable_arguments_are_refused(arguments, message):
    with pytest.raises(ValueError, match=rf"{message}.*; .*\.$"):
        ContinuousBias(*arguments)
