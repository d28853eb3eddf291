import copy
import itertools
import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from src.layers.cosine_attention import CosineAttention
from src.layers.position_bias import ContinuousBias
from src.layers.window_attention import WindowAttention

CASES = list(
    itertools.product(
        [((4, 4), (2, 2)), ((3, 5), (1, 2)), ((3, 4), (0, 0)), ((2, 3), (1, 0)), ((1, 4), (0, 2))], ["attend", "mask"]
    )
)


def build(window, shift=(0, 0), dim=6, heads=2, pretrained=None, **options):
    torch.manual_seed(0)
    bias = ContinuousBias(window, heads, pretrained, hidden=16)
    attention = CosineAttention(dim, heads, window, bias, shift, **options)
    for name, parameter in attention.named_parameters():
        torch.nn.init.normal_(parameter, std=1.5 if name == "position_bias.mlp.2.weight" else 1.0)
    with torch.no_grad():
        attention.logit_scale[0] = 7.0  # beyond the limit
    return attention.eval()


def naive_bias(bias, offset):
    """The bias of each head for one offset, from the formulas."""
    scaled = [
        8.0 * step / max(reach - 1, 1)
        for step, reach in zip(offset, bias.pretrained_window or bias.window, strict=True)
    ]
    logs = [math.copysign(math.log2(1 + abs(x)) / math.log2(8), x) for x in scaled]
    coords = torch.tensor(logs, dtype=torch.float64)
    first, last = bias.mlp[0], bias.mlp[2]
    hidden = torch.stack([(row * coords).sum() + b for row, b in zip(first.weight, first.bias, strict=True)]).clamp(0)
    return 16 / (1 + torch.exp(-(last.weight * hidden).sum(1)))


def unit(vector):
    length = vector.square().sum(-1, keepdim=True).sqrt()
    return torch.where(length == 0, 0.0, vector / length)


def naive(attention, image):
    """Window by window and query by query on one image (H, W, C)."""
    height, width, channels = image.shape
    window, heads = attention.window, attention.num_heads
    padded = [-(-extent // step) * step for extent, step in zip((height, width), window, strict=True)]
    shift = [
        step if attention.shift_covered or extent > reach else 0
        for step, extent, reach in zip(attention.shift, padded, window, strict=True)
    ]
    tokens = image.new_zeros(*padded, channels)
    tokens[:height, :width] = image
    q, k, v = (F.linear(tokens, weight).view(*padded, heads, -1) for weight in attention.qkv.weight.chunk(3))
    if attention.q_bias is not None:
        q, v = q + attention.q_bias.view(heads, -1), v + attention.v_bias.view(heads, -1)
    scales = [min(math.exp(value), 100.0) for value in attention.logit_scale.flatten().tolist()]
    scales = torch.tensor(scales, dtype=torch.float64)
    places = list(itertools.product(range(1 - window[0], window[0]), range(1 - window[1], window[1])))
    bias = {place: naive_bias(attention.position_bias, place) for place in places}
    out = torch.zeros_like(tokens)
    for top, left in itertools.product(range(0, padded[0], window[0]), range(0, padded[1], window[1])):
        members = []
        for i, j in itertools.product(range(window[0]), range(window[1])):
            row, column = (top + i + shift[0]) % padded[0], (left + j + shift[1]) % padded[1]
            region = (row < shift[0], column < shift[1])
            members.append((i, j, row, column, region, row < height and column < width))
        for i, j, row, column, region, real in members:
            keys = [
                key for key in members if key[4] == region and (attention.padded_keys == "attend" or not real or key[5])
            ]
            logits = torch.stack(
                [
                    (unit(q[row, column]) * unit(k[key[2], key[3]])).sum(-1) * scales + bias[i - key[0], j - key[1]]
                    for key in keys
                ]
            )
            values = torch.stack([v[key[2], key[3]] for key in keys])
            out[row, column] = (logits.softmax(0)[..., None] * values).sum(0).flatten()
    return F.linear(out[:height, :width], attention.proj.weight, attention.proj.bias)


@pytest.mark.parametrize(("geometry", "padded_keys"), CASES)
@pytest.mark.parametrize("shift_covered", [True, False])
@pytest.mark.parametrize("pretrained", [None, (6, 3)])
@torch.no_grad()
def test_attention_equals_a_loop_over_windows_and_queries(geometry, padded_keys, shift_covered, pretrained):
    options = {"padded_keys": padded_keys, "shift_covered": shift_covered}
    attention = build(*geometry, pretrained=pretrained, **options).double()
    for size in [(1, 1), (3, 4), (1, 9), (7, 5)]:
        x = torch.randn(2, *size, 6, dtype=torch.float64)
        expected = torch.stack([naive(attention, image) for image in x])
        assert torch.allclose(attention(x), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("qkv_bias", [True, False])
@torch.no_grad()
def test_biases_of_queries_and_values_are_optional(qkv_bias):
    attention = build((3, 4), (1, 2), qkv_bias=qkv_bias).double()
    names = {"q_bias", "v_bias"} & set(attention.state_dict())
    assert names == ({"q_bias", "v_bias"} if qkv_bias else set())
    assert "qkv.bias" not in attention.state_dict()
    x = torch.randn(1, 5, 6, 6, dtype=torch.float64)
    assert torch.allclose(attention(x)[0], naive(attention, x[0]), rtol=0, atol=1e-12)


@pytest.mark.parametrize(("geometry", "padded_keys"), CASES)
@pytest.mark.parametrize("shift_covered", [True, False])
@torch.no_grad()
def test_images_of_several_sizes_each_get_what_they_get_alone(geometry, padded_keys, shift_covered):
    attention = build(*geometry, padded_keys=padded_keys, shift_covered=shift_covered).double()
    sizes = [(1, 1), (8, 11), (3, 4), (4, 11), (7, 2)]
    x = 100 * torch.randn(len(sizes), 8, 11, 6, dtype=torch.float64)
    for image, result, (height, width) in zip(x, attention(x, sizes), sizes, strict=True):
        alone = attention(image[None, :height, :width])[0]
        assert torch.allclose(result[:height, :width], alone, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("shift", [(0, 0), (1, 2)])
@pytest.mark.parametrize("sizes", [None, [(3, 4), (9, 13), (9, 13)]])
@pytest.mark.parametrize("windows_per_chunk", [1, 5, 100])
def test_chunks_of_windows_give_the_same_values_and_gradients(shift, sizes, windows_per_chunk):
    x = torch.randn(3, 9, 13, 6, dtype=torch.float64, requires_grad=True)
    results = []
    for chunk in (None, windows_per_chunk):
        attention = build((3, 4), shift, windows_per_chunk=chunk).double()
        out = attention(x, sizes)
        results.append([out, *torch.autograd.grad(out.square().sum(), [x, *attention.parameters()])])
    for whole, chunked in zip(*results, strict=True):
        assert torch.allclose(whole, chunked, rtol=1e-10, atol=1e-10)


def test_gradients_pass_numerical_check():
    attention = build((2, 3), (1, 1), heads=1, dim=2).double()
    x = torch.randn(1, 3, 4, 2, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(attention, x)


@torch.no_grad()
def test_only_the_directions_of_queries_and_keys_count():
    attention = build((4, 4), qkv_bias=False).double()
    x = torch.randn(1, 5, 6, 6, dtype=torch.float64)
    expected = attention(x)
    attention.qkv.weight[:12] *= 50
    assert torch.allclose(attention(x), expected, rtol=0, atol=1e-12)


@torch.no_grad()
def test_the_scale_begins_at_10_and_ends_at_100():
    torch.manual_seed(0)
    attention = CosineAttention(6, 2, (4, 4), ContinuousBias((4, 4), 2))
    assert attention.logit_scale.exp().flatten().tolist() == pytest.approx([10, 10])
    x = torch.randn(1, 4, 4, 6)
    outputs = []
    for scale in (10.0, 99.0, 100.0, 1000.0):
        attention.logit_scale.fill_(math.log(scale))
        outputs.append(attention(x))
    assert not torch.allclose(outputs[0], outputs[1], rtol=1e-3)
    assert not torch.equal(outputs[1], outputs[2])
    assert torch.equal(outputs[2], outputs[3])


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("shift", [(0, 0), (2, 2)])
def test_half_precision_stays_close_and_its_gradients_finite(dtype, shift):
    attention = build((4, 4), shift)
    attention.logit_scale.data.fill_(2.0)
    x = torch.randn(2, 5, 6, 6)  # with padding, whose keys are zero
    expected = attention(x)
    half = copy.deepcopy(attention).to(dtype)
    outputs = [(half, half(x.to(dtype)))]
    with torch.autocast("cpu", dtype):
        outputs.append((attention, attention(x)))
    for model, output in outputs:
        assert output.dtype == dtype
        assert (output.float() - expected).abs().max() < 0.05 * expected.abs().max()
        gradients = torch.autograd.grad(output.float().square().sum(), list(model.parameters()))
        assert all(gradient.isfinite().all() for gradient in gradients)


@pytest.mark.parametrize("size", [1e-30, 1e-6, 1e6])
def test_faint_and_strong_images_have_finite_values_and_gradients(size):
    attention = build((4, 4), (2, 2), qkv_bias=False)
    x = (size * torch.randn(1, 5, 6, 6)).requires_grad_()
    out = attention(x)
    gradients = torch.autograd.grad(out.sum(), [x, *attention.parameters()])
    assert out.isfinite().all()
    assert all(gradient.isfinite().all() for gradient in gradients)


@pytest.mark.parametrize("option", ["attn_drop_rate", "drop_rate"])
def test_dropout_acts_in_training_only(option):
    attention = build((4, 4), **{option: 0.5})
    x = torch.randn(1, 5, 6, 6)
    assert torch.equal(attention(x), attention(x))
    attention.train()
    assert not torch.allclose(attention(x), attention(x))


def test_it_is_another_function_than_dot_product_attention():
    attention = build((4, 4))
    plain = WindowAttention(6, 2, (4, 4), attention.position_bias).eval()
    plain.load_state_dict(attention.state_dict(), strict=False)
    with torch.no_grad():
        plain.qkv.bias.copy_(torch.cat([attention.q_bias, torch.zeros(6), attention.v_bias]))
    x = torch.randn(1, 5, 6, 6)
    assert not torch.allclose(attention(x), plain(x), rtol=0.01, atol=0.01)


def test_heads_that_do_not_divide_the_channels_are_refused():
    with pytest.raises(ValueError, match=r"num_heads must divide dim, got 4 heads for 6 channels; .*\.$"):
        build((4, 4), heads=4)


@pytest.mark.parametrize("gradients", [False, True])
def test_an_adapter_around_the_projection_acts(gradients):
    class Doubled(nn.Module):
        def __init__(self, base):
            super().__init__()
            self.base = base

        def forward(self, x):
            return 2 * self.base(x)

    torch.manual_seed(0)
    attention = CosineAttention(6, 2, (3, 4), ContinuousBias((3, 4), 2)).double().eval()
    other = copy.deepcopy(attention)
    with torch.no_grad():
        other.qkv.weight.mul_(2)
    attention.qkv = Doubled(attention.qkv)
    x = torch.randn(1, 7, 9, 6, dtype=torch.float64)
    with torch.set_grad_enabled(gradients):
        assert torch.allclose(attention(x), other(x), rtol=0, atol=1e-12)
