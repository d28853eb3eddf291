import pytest
import torch
import torch.nn.functional as F

from src.layers import upsampled_taps
from src.layers.upsampled_conv import JoinedKernel, upsampled_conv
from src.layers.upsampled_taps import upsampled_gradients
from tests.layers.kept_storages import kept_storages
from tests.layers.largest_tensor import LargestTensor
from tests.layers.nan_memory import nan_memory

CASES = [
    ([(1, 1)], (1, 1)),
    ([(1, 1)], (5, 7)),
    ([(3, 4)], (9, 15)),
    ([(5, 7)], (13, 11)),
    ([(13, 11)], (5, 7)),
    ([(7, 3)], (3, 17)),
    ([(1, 9)], (2, 37)),
    ([(23, 1)], (89, 1)),
    ([(9, 15)], (9, 15)),
    ([(9, 15), (9, 15)], (9, 15)),
    ([(9, 15), (5, 8), (3, 4), (2, 2)], (9, 15)),
    ([(5, 8), (9, 15), (1, 1), (9, 15), (20, 31)], (9, 15)),
    ([(1, 1), (2, 2), (3, 3), (6, 6)], (7, 8)),
    ([(2, 2), (1, 1)], (1, 1)),
    ([(9, 5), (37, 41)], (37, 41)),
]


def inputs(sizes, outputs=4, batch=2, dtype=torch.float64, channels=None):
    generator = torch.Generator().manual_seed(0)
    channels = channels or [3 + i % 2 for i in range(len(sizes))]
    maps = [
        torch.randn(batch, count, *size, generator=generator, dtype=torch.float64)
        for count, size in zip(channels, sizes, strict=True)
    ]
    weight = torch.randn(outputs, sum(channels), 3, 3, generator=generator, dtype=torch.float64)
    return [level.to(dtype).requires_grad_() for level in maps], weight.to(dtype).requires_grad_()


def plainly(maps, weight, size):
    resized = [F.interpolate(level, size=size, mode="bilinear", align_corners=False) for level in maps]
    return F.conv2d(torch.cat(resized, 1), weight, padding=1)


def compare(maps, weight, size, tolerance, **options):
    """Result and gradients against the plain way in the inputs' type."""
    expected, result = plainly(maps, weight, size), upsampled_conv(maps, weight, size, **options)
    assert result.shape == expected.shape
    assert result.dtype == expected.dtype
    assert (result - expected).abs().max() <= tolerance * expected.abs().max()
    factors = torch.randn(expected.shape, generator=torch.Generator().manual_seed(1)).to(expected.dtype)
    sources = [source for source in (*maps, weight) if source.requires_grad]
    found = torch.autograd.grad((result * factors).sum(), sources)
    true = torch.autograd.grad((expected * factors).sum(), sources)
    for one, other in zip(found, true, strict=True):
        assert one.shape == other.shape
        assert (one - other).abs().max() <= tolerance * other.abs().max()


@pytest.mark.parametrize(("sizes", "size"), CASES)
@pytest.mark.parametrize("batch", [1, 2])
def test_result_and_gradients_are_those_of_the_plain_way(sizes, size, batch):
    with nan_memory():
        compare(*inputs(sizes, batch=batch), size, 1e-12)


@pytest.mark.parametrize(("sizes", "size"), CASES)
@pytest.mark.parametrize(("chunk_bytes", "block"), [(1, 1), (1, 3), (500, 2), (2000, 5), (10**9, 10**6)])
def test_pieces_do_not_matter(sizes, size, chunk_bytes, block, monkeypatch):
    monkeypatch.setattr(upsampled_taps, "_CHUNK_BYTES", chunk_bytes)
    monkeypatch.setattr(upsampled_taps, "_CPU_BLOCK", block)
    compare(*inputs(sizes), size, 1e-12)


@pytest.mark.parametrize("numerics", ["exact", "fast"])
@pytest.mark.parametrize("sizes", [[(17, 19)], [(17, 19), (5, 6)], [(17, 19), (9, 10), (17, 19), (1, 1)]])
def test_wide_maps_are_convolved_in_tiles_too(numerics, sizes):
    maps, weight = inputs(sizes, outputs=64, channels=[64 + i for i in range(len(sizes))])
    compare(maps, weight, (17, 19), 1e-12, numerics=numerics)


def test_numerics_change_the_rounding():
    maps, weight = inputs([(17, 19), (5, 6)], outputs=64, channels=[64, 64], dtype=torch.float32)
    exact, fast = (upsampled_conv(maps, weight, (17, 19), numerics) for numerics in ("exact", "fast"))
    assert not torch.equal(exact, fast)
    assert (exact - fast).abs().max() < 2e-5 * exact.abs().max()


@pytest.mark.parametrize("frozen", [["weight"], [0], [1], [0, 1], [0, "weight"], [1, "weight"]])
@pytest.mark.parametrize("channels", [(3, 4), (64, 65)])
def test_what_needs_no_gradient_gets_none(frozen, channels):
    maps, weight = inputs([(17, 16), (5, 6)], outputs=channels[0], channels=list(channels))
    for which in frozen:
        (weight if which == "weight" else maps[which]).requires_grad_(False)
    compare(maps, weight, (17, 16), 1e-12)
    upsampled_conv(maps, weight, (17, 16)).sum().backward()
    assert all((source.grad is not None) == source.requires_grad for source in (*maps, weight))


def test_no_gradient_is_no_graph():
    maps, weight = inputs([(9, 15), (3, 4)])
    assert not upsampled_conv([level.detach() for level in maps], weight.detach(), (9, 15)).requires_grad
    with torch.no_grad():
        assert not upsampled_conv(maps, weight, (9, 15)).requires_grad


@pytest.mark.parametrize(
    "stored",
    [
        lambda level: level.contiguous(memory_format=torch.channels_last),
        lambda level: level.transpose(2, 3).contiguous().transpose(2, 3),
        lambda level: level.repeat_interleave(2, 3)[..., ::2],
        lambda level: level.flip(2).flip(2),
        lambda level: torch.cat([level, level], 1)[:, : level.shape[1]],
        lambda level: level[:, :1].expand_as(level),
    ],
)
def test_maps_of_any_layout_will_do(stored):
    maps, weight = inputs([(9, 15), (3, 4), (13, 2)])
    compare([stored(level.detach()).requires_grad_() for level in maps], weight, (9, 15), 1e-12)


def test_gradient_of_any_layout_will_do():
    maps, weight = inputs([(9, 15), (3, 4)])
    sources = [*maps, weight]
    for gradient in (torch.ones(()).double().expand(2, 4, 9, 15), torch.ones(2, 4, 15, 9).double().transpose(2, 3)):
        found = torch.autograd.grad(upsampled_conv(maps, weight, (9, 15)), sources, gradient)
        true = torch.autograd.grad(plainly(maps, weight, (9, 15)), sources, gradient)
        assert all(torch.allclose(a, b, rtol=0, atol=1e-11) for a, b in zip(found, true, strict=True))


def test_inputs_and_their_gradient_are_left_as_they_are():
    maps, weight = inputs([(9, 15), (3, 4)])
    before = [source.detach().clone() for source in (*maps, weight)]
    gradient = torch.ones(2, 4, 9, 15, dtype=torch.float64)
    upsampled_conv(maps, weight, (9, 15)).backward(gradient)
    assert all(torch.equal(a, b) for a, b in zip(before, (*maps, weight), strict=True))
    assert (gradient == 1).all()


@pytest.mark.parametrize(("sizes", "size"), [CASES[1], CASES[4], ([(3, 4), (2, 1)], (3, 4))])
def test_gradients_are_those_of_small_differences(sizes, size):
    maps, weight = inputs(sizes, outputs=2, batch=1)
    assert torch.autograd.gradcheck(lambda weight, *maps: upsampled_conv(maps, weight, size), (weight, *maps))


@pytest.mark.parametrize(("sizes", "size"), CASES)
def test_single_precision_is_close(sizes, size):
    compare(*inputs(sizes, dtype=torch.float32), size, 3e-6)


@pytest.mark.parametrize(("sizes", "size"), CASES)
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.bfloat16, 4e-2), (torch.float16, 5e-3)])
def test_half_precision_is_close(sizes, size, dtype, tolerance):
    maps, weight = inputs(sizes, dtype=dtype)
    expected = plainly([level.double() for level in maps], weight.double(), size)
    result = upsampled_conv(maps, weight, size)
    assert result.dtype == dtype
    assert (result - expected).abs().max() <= tolerance * expected.abs().max()
    sources = [*maps, weight]
    found, true = (torch.autograd.grad(each.sum(), sources, retain_graph=True) for each in (result, expected))
    assert all((a - b).abs().max() <= 2 * tolerance * b.abs().max() for a, b in zip(found, true, strict=True))


@pytest.mark.parametrize("sizes", [[(9, 15), (3, 4)], [(9, 15)]])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_automatic_precision_acts_as_on_a_convolution(sizes, dtype):
    maps, weight = inputs(sizes, dtype=torch.float32)
    expected = plainly(maps, weight, (9, 15))
    with torch.autocast("cpu", dtype):
        result = upsampled_conv([maps[0].to(dtype), *maps[1:]], weight, (9, 15))
    assert result.dtype == dtype
    assert (result - expected).abs().max() <= 4e-2 * expected.abs().max()
    result.float().sum().backward()
    assert weight.grad.dtype == torch.float32
    assert [level.grad.dtype for level in maps] == [torch.float32] * len(maps)
    with torch.autocast("cpu", dtype, enabled=False):
        assert upsampled_conv(maps, weight, (9, 15)).dtype == torch.float32


@pytest.mark.parametrize(("sizes", "size"), CASES[:11])
def test_result_is_stored_channels_last(sizes, size):
    maps, weight = inputs(sizes)
    if any(level.shape[2:] != size for level in maps):
        assert upsampled_conv(maps, weight, size).permute(0, 2, 3, 1).is_contiguous()


def test_size_may_be_torchs():
    maps, weight = inputs([(9, 15), (3, 4)])
    assert torch.equal(upsampled_conv(maps, weight, maps[0].shape[2:]), upsampled_conv(maps, weight, (9, 15)))


@pytest.mark.parametrize(("sizes", "size"), CASES)
def test_prepared_kernel_gives_the_same(sizes, size):
    maps, weight = inputs(sizes)
    with torch.no_grad():
        kernel = JoinedKernel.prepared(weight, maps, size, "exact")
        for _ in range(2):
            result = kernel.result(maps, size).permute(0, 3, 1, 2)
            assert torch.allclose(result, plainly(maps, weight, size), rtol=0, atol=1e-11)


def test_caches_are_bounded():
    upsampled_taps._weights.cache_clear()
    for extent in range(1, 30):
        maps, weight = inputs([(1, 2)], outputs=1, batch=1)
        upsampled_conv(maps, weight, (extent, 40 + extent))
    info = upsampled_taps._weights.cache_info()
    assert 0 < info.currsize <= info.maxsize <= 1024
    compare(*inputs([(3, 4)]), (9, 15), 1e-12)


@pytest.mark.parametrize("sizes", [[(16, 24)], [(16, 24), (8, 12)]])
def test_no_upsampled_map_is_made(sizes, monkeypatch):
    """What stands inside the operator, as a dispatch mode does not look into operators."""
    monkeypatch.setattr(upsampled_taps, "_CHUNK_BYTES", 2**16)
    maps, weight = inputs(sizes, outputs=2, batch=1, channels=[48] * len(sizes), dtype=torch.float32)
    upsampled = 48 * 128 * 192
    with torch.no_grad():
        with LargestTensor() as largest:
            JoinedKernel.prepared(weight, maps, (128, 192), "exact").result(maps, (128, 192))
            for level, part in zip(maps, weight.split(48, 1), strict=True):
                upsampled_gradients(level, part, torch.ones(1, 2, 128, 192))
        with LargestTensor() as plain:
            plainly(maps, weight, (128, 192))
    assert 2 * 128 * 192 <= largest.numel < upsampled / 3
    assert plain.numel >= upsampled


def test_graph_keeps_the_small_maps_and_the_weight_alone():
    maps, weight = inputs([(4, 6), (2, 3)], batch=1)
    with kept_storages() as kept:
        upsampled_conv(maps, weight, (32, 48))
    assert sorted(kept) == sorted(tensor.nbytes for tensor in (weight, *maps))


def test_a_backward_pass_may_run_under_automatic_precision():
    maps, weight = inputs([(9, 15), (3, 4)], dtype=torch.float32)
    leaves = [tensor.requires_grad_() for tensor in (*maps, weight)]
    gradients = []
    for automatic in (False, True):
        result = upsampled_conv(maps, weight, (9, 15))
        with torch.autocast("cpu", torch.bfloat16, enabled=automatic):
            gradients.append(torch.autograd.grad(result.square().sum(), leaves))
    assert all(torch.equal(one, other) for one, other in zip(*gradients, strict=True))
