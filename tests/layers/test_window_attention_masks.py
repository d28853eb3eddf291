"""Masks that are kept between calls; see test_window_attention.py for what attention gives."""

import copy
from unittest import mock

import pytest
import torch

from src.layers.position_bias import ContinuousBias, PositionBias, TableBias
from src.layers.window_attention import WindowAttention

WINDOW, HEADS = (3, 4), 2
COUNT = (2 * WINDOW[0] - 1) * (2 * WINDOW[1] - 1)


def build(bias=None, shift=(1, 2)):
    torch.manual_seed(0)
    bias = TableBias(WINDOW, HEADS, init_std=1.0) if bias is None else bias
    return WindowAttention(6, HEADS, WINDOW, bias, shift).eval()


def maps(size=(7, 9)):
    return torch.randn(2, *size, 6, generator=torch.Generator().manual_seed(1))


def counted(attention):
    return mock.patch.object(attention.position_bias, "forward", wraps=attention.position_bias.forward)


@pytest.mark.parametrize("shift", [(0, 0), (1, 2)])
@pytest.mark.parametrize(
    "bias", [lambda: TableBias(WINDOW, HEADS, init_std=1.0), lambda: ContinuousBias(WINDOW, HEADS)]
)
@torch.no_grad()
def test_the_bias_is_made_once_for_maps_of_one_size(shift, bias):
    attention, x = build(bias(), shift), maps()
    with counted(attention) as made:
        results = [attention(x) for _ in range(3)]
    assert made.call_count == 1
    assert torch.equal(results[0], results[1]) and torch.equal(results[0], results[2])


@torch.no_grad()
def test_each_size_has_its_masks():
    attention = build()
    sizes = [(7, 9), (6, 8), (7, 9)]
    expected = [build()(maps(size)) for size in sizes]
    for size, result in zip(sizes, expected, strict=True):
        assert torch.equal(attention(maps(size)), result)
    several = [[(7, 9), (4, 9)], [(7, 9), (7, 3)]]
    expected = [build()(maps(), sizes) for sizes in several]
    for sizes, result in zip(several, expected, strict=True):
        assert torch.equal(attention(maps(), sizes), result)


def grow(attention):
    attention.position_bias.relative_position_bias_table.add_(torch.arange(COUNT * HEADS).view(COUNT, HEADS) / 7)


def load(attention):
    other = TableBias(WINDOW, HEADS, init_std=3.0)
    attention.position_bias.load_state_dict(other.state_dict())


def replace(attention):
    attention.position_bias = TableBias(WINDOW, HEADS, init_std=2.0)


def train_unseen(attention):
    attention.train()
    attention.position_bias.relative_position_bias_table.data.mul_(-2)
    attention.eval()


def step_unseen(attention):
    with torch.enable_grad():
        attention(maps()).square().sum().backward()
    attention.position_bias.relative_position_bias_table.data.mul_(-2)


def double(attention):
    attention.double()


@pytest.mark.parametrize("change", [grow, load, replace, train_unseen, step_unseen, double])
@torch.no_grad()
def test_changed_weights_make_new_masks(change):
    attention, x = build(), maps()
    before = attention(x)
    change(attention)
    x = x.to(attention.qkv.weight.dtype)
    fresh = copy.deepcopy(attention)
    with counted(fresh) as made:
        expected = fresh(x)
    assert made.call_count == 1
    assert torch.equal(attention(x), expected)
    assert not torch.equal(attention(x), before.to(x.dtype))


@torch.no_grad()
def test_changed_constants_make_new_masks():
    attention, x = build(ContinuousBias(WINDOW, HEADS)), maps()
    before = attention(x)
    attention.position_bias.set_pretrained_window((12, 12))
    after = attention(x)
    assert torch.equal(after, copy.deepcopy(attention)(x))
    assert not torch.equal(after, before)


def test_gradients_reach_the_bias_after_inference():
    attention, x = build(), maps()
    with torch.inference_mode():
        attention(x)
    attention(x).square().sum().backward()
    assert attention.position_bias.relative_position_bias_table.grad.abs().sum() > 0


@torch.no_grad()
def test_precision_and_regions_are_part_of_what_is_kept():
    attention, x = build(), maps()
    plain = attention(x)
    with torch.autocast("cpu", torch.bfloat16):
        half = attention(x)
    assert half.dtype == torch.bfloat16
    assert torch.equal(attention(x), plain)
    masked = build()
    masked.load_state_dict(attention.state_dict())
    masked.padded_keys = "mask"
    expected = masked(x)
    attention.padded_keys = "mask"
    assert torch.equal(attention(x), expected)


class OfParts(PositionBias):
    """A bias that calls a module of its own."""

    def __init__(self):
        super().__init__()
        self.table, self.last = TableBias(WINDOW, HEADS, init_std=1.0), torch.nn.Identity()

    def forward(self, query_coords, key_coords):
        return self.last(self.table(query_coords, key_coords))


@torch.no_grad()
@pytest.mark.parametrize("part", [lambda bias: bias, lambda bias: bias.last])
def test_hooks_on_the_bias_are_not_passed_over(part):
    attention, x = build(OfParts()), maps()
    before = attention(x)
    part(attention.position_bias).register_forward_hook(lambda _, __, output: output * torch.rand_like(output))
    results = [attention(x) for _ in range(2)]
    assert not torch.equal(results[0], before)
    assert not torch.equal(results[0], results[1])


class Adapter(torch.nn.Module):
    """A projection, and what was learned on top of it."""

    def __init__(self, base):
        super().__init__()
        self.base, self.learned = base, torch.nn.Linear(6, 18, bias=False)

    def forward(self, x):
        return self.base(x) + self.learned(x)


@pytest.mark.parametrize("gradients", [False, True])
def test_an_adapter_around_the_projection_acts_and_padding_keeps_its_bias(gradients):
    attention = build()
    torch.nn.init.normal_(attention.qkv.bias)
    merged = copy.deepcopy(attention)
    attention.qkv = Adapter(attention.qkv)
    with torch.no_grad():
        merged.qkv.weight += attention.qkv.learned.weight
    with torch.set_grad_enabled(gradients):
        assert torch.allclose(attention(maps()), merged(maps()), atol=1e-6)
