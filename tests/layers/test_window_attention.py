import itertools
from unittest import mock

import pytest
import torch
import torch.nn.functional as F

from src.layers.position_bias import TableBias
from src.layers.window_attention import WindowAttention

CASES = list(
    itertools.product([((4, 4), (2, 2)), ((3, 5), (1, 2)), ((3, 4), (0, 0)), ((2, 3), (1, 0))], ["attend", "mask"])
)


def build(window, shift=(0, 0), dim=6, heads=2, **options):
    torch.manual_seed(0)
    attention = WindowAttention(dim, heads, window, TableBias(window, heads, init_std=1.0), shift, **options)
    for parameter in (attention.qkv.weight, attention.qkv.bias, attention.proj.bias):
        if parameter is not None:
            torch.nn.init.normal_(parameter)
    return attention.eval()


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
    qkv = F.linear(tokens, attention.qkv.weight, attention.qkv.bias).view(*padded, 3, heads, -1)
    table = attention.position_bias.relative_position_bias_table.view(2 * window[0] - 1, 2 * window[1] - 1, heads)
    out = torch.zeros_like(tokens)
    for top, left in itertools.product(range(0, padded[0], window[0]), range(0, padded[1], window[1])):
        members = []
        for i, j in itertools.product(range(window[0]), range(window[1])):
            row, column = (top + i + shift[0]) % padded[0], (left + j + shift[1]) % padded[1]
            region = (row < shift[0], column < shift[1])
            real = row < height and column < width
            members.append((i, j, row, column, region, real))
        for i, j, row, column, region, real in members:
            keys = [
                key for key in members if key[4] == region and (attention.padded_keys == "attend" or not real or key[5])
            ]
            logits = torch.stack(
                [
                    (qkv[row, column, 0] * qkv[key[2], key[3], 1]).sum(-1) / (channels // heads) ** 0.5
                    + table[i - key[0] + window[0] - 1, j - key[1] + window[1] - 1]
                    for key in keys
                ]
            )
            values = torch.stack([qkv[key[2], key[3], 2] for key in keys])
            out[row, column] = (logits.softmax(0)[..., None] * values).sum(0).flatten()
    return F.linear(out[:height, :width], attention.proj.weight, attention.proj.bias)


@pytest.mark.parametrize(("geometry", "padded_keys"), CASES)
@pytest.mark.parametrize("shift_covered", [True, False])
@pytest.mark.parametrize("size", [(1, 1), (3, 4), (4, 9), (8, 5)])
@torch.no_grad()
def test_attention_equals_a_loop_over_windows_and_queries(geometry, padded_keys, shift_covered, size):
    attention = build(*geometry, padded_keys=padded_keys, shift_covered=shift_covered).double()
    x = torch.randn(2, *size, 6, dtype=torch.float64)
    expected = torch.stack([naive(attention, image) for image in x])
    assert torch.allclose(attention(x), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize(("geometry", "padded_keys"), CASES)
@pytest.mark.parametrize("shift_covered", [True, False])
@torch.no_grad()
def test_images_of_several_sizes_each_get_what_they_get_alone(geometry, padded_keys, shift_covered):
    attention = build(*geometry, padded_keys=padded_keys, shift_covered=shift_covered).double()
    sizes = [(1, 1), (8, 11), (3, 4), (4, 11), (7, 2)]
    x = 100 * torch.randn(len(sizes), 8, 11, 6, dtype=torch.float64)
    joint = attention(x, sizes)
    for image, result, (height, width) in zip(x, joint, sizes, strict=True):
        expected = naive(attention, image[:height, :width])
        assert torch.allclose(result[:height, :width], expected, rtol=1e-12, atol=1e-12)


def test_gradients_of_several_sizes_are_those_of_the_images_alone():
    attention = build((3, 4), (1, 2), shift_covered=False).double()
    sizes = [(2, 3), (6, 7), (6, 3)]
    x = torch.randn(3, 6, 7, 6, dtype=torch.float64, requires_grad=True)
    joint = attention(x, sizes)
    loss = sum(result[:height, :width].square().sum() for result, (height, width) in zip(joint, sizes, strict=True))
    gradients = torch.autograd.grad(loss, [x, *attention.parameters()])
    loss = sum(attention(x[i : i + 1, : size[0], : size[1]]).square().sum() for i, size in enumerate(sizes))
    for gradient, expected in zip(gradients, torch.autograd.grad(loss, [x, *attention.parameters()]), strict=True):
        assert torch.allclose(gradient, expected, rtol=1e-10, atol=1e-10)


def test_padded_keys_make_a_difference_only_where_there_is_padding():
    x = torch.randn(1, 5, 8, 6)
    attend, mask = (build((4, 4), padded_keys=padded_keys) for padded_keys in ("attend", "mask"))
    assert not torch.allclose(attend(x), mask(x))
    assert torch.allclose(attend(x)[:, :4], mask(x)[:, :4])
    assert torch.equal(attend(x[:, :4]), mask(x[:, :4]))


def test_shift_covered_makes_a_difference_only_where_a_window_covers_the_map():
    x = torch.randn(1, 5, 4, 6)
    kept, off = (build((4, 4), (2, 2), shift_covered=shift_covered) for shift_covered in (True, False))
    assert not torch.allclose(kept(x), off(x))
    x = torch.randn(1, 5, 5, 6)
    assert torch.equal(kept(x), off(x))


@pytest.mark.parametrize("shift", [(0, 0), (1, 2)])
@pytest.mark.parametrize("sizes", [None, [(3, 4), (9, 13), (9, 13)]])
@pytest.mark.parametrize("windows_per_chunk", [1, 2, 5, 7, 100])
def test_chunks_of_windows_give_the_same_values_and_gradients(shift, sizes, windows_per_chunk):
    x = torch.randn(3, 9, 13, 6, dtype=torch.float64, requires_grad=True)
    results = []
    for chunk in (None, windows_per_chunk):
        attention = build((3, 4), shift, windows_per_chunk=chunk).double()
        out = attention(x, sizes)
        results.append([out, *torch.autograd.grad(out.square().sum(), [x, *attention.parameters()])])
    for whole, chunked in zip(*results, strict=True):
        assert torch.allclose(whole, chunked, rtol=1e-12, atol=1e-12)


@torch.no_grad()
def attention_calls(attention, x):
    with mock.patch.object(F, "scaled_dot_product_attention", wraps=F.scaled_dot_product_attention) as call:
        attention(x)
    return [(args[0], kwargs["attn_mask"]) for args, kwargs in call.call_args_list]


@pytest.mark.parametrize(
    ("shift", "windows_per_chunk", "num_calls"),
    [
        ((0, 0), None, 1),
        ((0, 0), 36, 1),
        ((0, 0), 7, 6),
        ((0, 0), 1, 36),
        ((1, 2), None, 4),  # 18 windows of one region, 6 and 9 of two, 3 of four
        ((1, 2), 36, 4),
        ((1, 2), 7, 3 + 1 + 2 + 1),
        ((1, 2), 1, 36),
    ],
)
def test_no_more_windows_are_attended_at_once_than_asked(shift, windows_per_chunk, num_calls):
    attention = build((3, 4), shift, windows_per_chunk=windows_per_chunk)
    calls = attention_calls(attention, torch.randn(3, 9, 13, 6))
    assert len(calls) == num_calls
    assert max(q.numel() for q, _ in calls) <= (windows_per_chunk or 36) * 12 * 6
    assert max(mask.numel() for _, mask in calls) <= (windows_per_chunk or 36) * 2 * 12 * 12


@pytest.mark.parametrize("shift", [(0, 0), (1, 2)])
@pytest.mark.parametrize("padded_keys", ["attend", "mask"])
@pytest.mark.parametrize("sizes", [None, [(3, 4), (9, 13), (9, 13)]])
@pytest.mark.parametrize("norm", [None, lambda tokens: tokens.sin() + 1])
@pytest.mark.parametrize("piece", [1, 2 * 12 * 18 * 8, 5 * 12 * 18 * 8])
@torch.no_grad()
def test_without_gradients_large_maps_are_worked_on_in_pieces(monkeypatch, shift, padded_keys, sizes, norm, piece):
    x = torch.randn(3, 9, 13, 6, dtype=torch.float64)
    attention = build((3, 4), shift, padded_keys=padded_keys).double()
    expected = attention(x, sizes, norm)
    monkeypatch.setattr("src.layers.window_attention._CPU_PIECE", piece)
    assert torch.allclose(attention(x, sizes, norm), expected, rtol=1e-12, atol=1e-12)
    calls = attention_calls(attention, x)
    assert max(len(q) for q, _ in calls) == max(piece // (12 * 18 * 8), 1)


@pytest.mark.parametrize("sizes", [None, [(5, 6), (2, 3)]])
@pytest.mark.parametrize("recompute_norm", [False, True])
def test_a_norm_may_stand_before(sizes, recompute_norm):
    attention = build((4, 4), (2, 2)).double()
    x = torch.randn(2, 5, 6, 6, dtype=torch.float64, requires_grad=True)
    results = []
    norm = torch.nn.LayerNorm(6).double()
    for out in (attention(norm(x), sizes), attention(x, sizes, norm, recompute_norm)):
        parts = [x, *norm.parameters(), *attention.parameters()]
        results.append([out, *torch.autograd.grad(out[:, :2, :3].square().sum(), parts)])
    assert all(torch.allclose(a, b, rtol=1e-12, atol=1e-12) for a, b in zip(*results, strict=True))


@pytest.mark.parametrize("shift", [(0, 0), (1, 0)])
@torch.no_grad()
def test_no_call_has_more_images_or_heads_than_a_kernel_can_launch(shift):
    attention = build((2, 1), shift, dim=2, heads=2)
    calls = attention_calls(attention, torch.randn(1, 2, 70_000, 2))
    assert sum(q.numel() for q, _ in calls) == 2 * 70_000 * 2
    assert max(max(q.shape[:2]) for q, _ in calls) <= 65_535


@pytest.mark.parametrize("shift", [(0, 0), (2, 2)])
@torch.no_grad()
def test_the_mask_has_the_queries_dtype(shift):
    attention = build((4, 4), shift)
    x = torch.randn(1, 5, 6, 6)
    with torch.autocast("cpu", torch.bfloat16):
        calls = attention_calls(attention, x)
    calls += attention_calls(attention.bfloat16(), x.bfloat16())
    assert len(calls) == (2 if shift == (0, 0) else 2 * 4)
    assert {(q.dtype, mask.dtype) for q, mask in calls} == {(torch.bfloat16, torch.bfloat16)}
    assert all(mask.isfinite().all() for _, mask in calls)


def test_qkv_bias_is_optional():
    assert build((4, 4), qkv_bias=False).qkv.bias is None
    assert build((4, 4)).qkv.bias is not None


@pytest.mark.parametrize("option", ["attn_drop_rate", "drop_rate"])
def test_dropout_acts_in_training_only(option):
    attention = build((4, 4), **{option: 0.5})
    x = torch.randn(1, 5, 6, 6)
    assert torch.equal(attention(x), attention(x))
    attention.train()
    assert not torch.allclose(attention(x), attention(x))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"heads": 4}, "num_heads must divide dim, got 4 heads for 6 channels"),
        ({"window": (0, 4)}, "window must be at least 1 token"),
        ({"shift": (4, 0)}, "shift must be at least 0 and smaller than the window"),
        ({"padded_keys": "drop"}, "padded_keys must be attend or mask, got 'drop'"),
        ({"windows_per_chunk": 0}, "windows_per_chunk must be at least 1 or None, got 0"),
    ],
)
def test_unusable_arguments_are_refused(options, message):
    with pytest.raises(ValueError, match=rf"{message}.*; .*\.$"):
        build(**({"window": (4, 4)} | options))
