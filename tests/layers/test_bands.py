import pytest
import torch
import torch.nn.functional as F

from src.layers.bands import Scratch, bands, channels_last, image_groups

CASES = [
    ((9, 15), (36, 60), None),
    ((125, 84), (500, 333), None),
    ((1, 1), (1, 3), (7, 5)),
    ((5, 6), (5, 6), None),
    ((5, 6), (5, 6), (5, 7)),
    ((97, 131), (33, 47), None),
    ((9, 12), (33, 47), (90, 131)),
    ((40, 50), (157, 199), (33, 47)),
    ((20, 20), (1000, 20), (3, 5)),
    ((333, 7), (1000, 11), (999, 1)),
]


def logits_of(size, dtype=torch.float32):
    return (torch.randn(2, 7, *size, generator=torch.Generator().manual_seed(0)) * 3).to(dtype)


def resized_twice(logits, input_size, size):
    logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
    for target in (input_size, size or input_size):
        logits = F.interpolate(logits, size=target, mode="bilinear", align_corners=False)
    return logits


def joined(logits, input_size, size, **options):
    return torch.cat([b.resized(logits[:, :, b.source]) for b in bands(logits, input_size, size, **options)], dim=2)


@pytest.mark.parametrize(("cells", "input_size", "size"), CASES)
@pytest.mark.parametrize(
    ("dtype", "tolerance"),
    [(torch.float32, 1e-6), (torch.float64, 1e-12), (torch.bfloat16, 1e-6), (torch.float16, 1e-6)],
)
def test_bands_are_the_rows_of_torchs_resizing(cells, input_size, size, dtype, tolerance):
    logits = logits_of(cells, dtype)
    expected = resized_twice(logits, input_size, size)
    result = joined(logits, input_size, size, max_bytes=10_000)
    assert result.dtype == expected.dtype
    assert (result - expected).abs().max() <= tolerance * logits.abs().max()


@pytest.mark.parametrize("max_bytes", [1, 2_000, 50_000, None])
def test_bands_cover_every_row_once_within_their_bytes(max_bytes):
    logits = logits_of((9, 12))
    rows = [band.rows for band in bands(logits, (33, 47), (50, 60), max_bytes=max_bytes)]
    assert [row for each in rows for row in range(each.start, each.stop)] == list(range(50))
    row_bytes = 2 * 7 * 60 * 4
    assert all(each.stop - each.start <= max(1, (max_bytes or 8 * 2**20) // row_bytes) for each in rows)


def test_a_band_needs_few_rows_of_the_logits():
    sources = [band.source for band in bands(logits_of((100, 4)), (400, 16), max_bytes=16 * 2 * 7 * 16 * 4)]
    assert len(sources) == 25
    assert max(source.stop - source.start for source in sources) <= 6


def test_gradients_are_those_of_torchs_resizing():
    logits = logits_of((9, 12), torch.float64).requires_grad_()
    factors = torch.randn(2, 7, 50, 60, dtype=torch.float64)
    (expected,) = torch.autograd.grad((resized_twice(logits, (33, 47), (50, 60)) * factors).sum(), logits)
    (result,) = torch.autograd.grad((joined(logits, (33, 47), (50, 60), max_bytes=5_000) * factors).sum(), logits)
    assert torch.allclose(result, expected, rtol=1e-12, atol=1e-12)


def test_infinite_logits_reach_their_own_pixels_alone():
    logits = logits_of((9, 12))
    logits[0, 3, 4, 5] = torch.inf
    logits[1, 2] = -torch.inf
    result = joined(logits, (36, 48), None)
    finite = resized_twice(logits.where(logits.isfinite(), 0), (36, 48), None)
    touched = resized_twice((~logits.isfinite()).float(), (36, 48), None) > 0
    assert not result.isnan().any()
    assert (result - finite)[~touched].abs().max() <= 1e-6 * finite.abs().max()
    assert (result[0, 3][touched[0, 3]] > 1e30).all()
    assert (result[1, 2] < -1e30).all()


@pytest.mark.parametrize(("max_bytes", "groups"), [(1, 5), (2 * 16 * 7 * 60 * 4, 3), (None, 1)])
def test_images_go_in_groups_of_which_a_band_has_rows_enough(max_bytes, groups):
    logits = torch.randn(5, 7, 9, 12)
    result = list(image_groups(logits, (50, 60), max_bytes))
    assert len(result) == groups
    assert [image for group in result for image in range(5)[group]] == list(range(5))


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_cells_are_a_copy_of_the_logits_channels_last(layout, dtype):
    logits = logits_of((9, 12), dtype).contiguous(memory_format=layout)[:, :, 2:7]
    cells = channels_last(logits)
    assert cells.is_contiguous()
    assert cells.dtype == torch.promote_types(dtype, torch.float32)
    assert torch.equal(cells, logits.permute(0, 2, 3, 1).to(cells.dtype))
    cells.zero_()
    assert logits.any()


def test_memory_of_one_name_is_used_again():
    scratch = Scratch(torch.zeros(1))
    first = scratch.take("scores", (4, 5), torch.float32)
    assert scratch.take("scores", (2, 3), torch.float32).data_ptr() == first.data_ptr()
    assert scratch.take("other", (2, 3), torch.float32).data_ptr() != first.data_ptr()
    assert scratch.take("scores", (9, 9), torch.float32).shape == (9, 9)
