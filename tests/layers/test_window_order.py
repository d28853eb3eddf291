import pytest
import torch

from src.layers.window_order import window_order
from src.layers.windows import padded_size, partition
from tests.layers.window_references import batch_regions, reverse

CPU = torch.device("cpu")
SIZES = [(1, 1), (3, 10), (7, 7), (8, 13), (1, 29), (23, 2)]
WINDOWS = [((7, 7), (3, 3)), ((2, 5), (1, 2)), ((1, 3), (0, 1)), ((4, 4), (0, 0))]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(("window", "shift"), WINDOWS)
def test_the_windows_are_those_of_partition_and_the_way_back_is_reverse(size, window, shift):
    x = torch.randn(2, *size, 3)
    order = window_order(2, size, (size,), window, shift, False, CPU)
    made = order.into_windows(x.flatten(0, 2)).view(-1, window[0] * window[1], 3)
    expected = partition(x, window, shift).flatten(0, 1)
    assert made.shape == expected.shape
    matches = (made[:, None] == expected).flatten(2).all(-1)
    assert (matches.any(0) & matches.any(1)).all()
    back = order.out_of_windows(made.flatten(0, 1)).view_as(x)
    assert torch.equal(back, x)
    assert torch.equal(back, reverse(partition(x, window, shift), size, window, shift))


@pytest.mark.parametrize("mask_padding", [False, True])
@pytest.mark.parametrize(("window", "shift"), WINDOWS)
@pytest.mark.parametrize("sizes", [((8, 13),), ((8, 13), (1, 1), (3, 12)), ((7, 5), (8, 13), (8, 1))])
def test_each_group_has_the_regions_of_its_windows(sizes, window, shift, mask_padding):
    batch = 3
    map_size = (8, 13)
    order = window_order(batch, map_size, sizes, window, shift, mask_padding, CPU)
    regions = batch_regions(map_size, sizes, window, shift, mask_padding, CPU)
    rows = order.tokens.view(-1, window[0] * window[1])
    rows = torch.where(rows == batch * 8 * 13, 0, rows + 1)  # as partition leaves them, 0 at padding
    numbers = torch.arange(1, batch * 8 * 13 + 1).view(batch, 8, 13, 1)
    cut = partition(numbers, window, shift)[..., 0]  # (B, M, N)
    assert [group.start for group in order.groups] == [0, *(group.stop for group in order.groups[:-1])]
    assert order.groups[-1].stop == len(rows) == cut[..., 0].numel()
    for group in order.groups:
        apart = torch.zeros(rows.shape[1], rows.shape[1], dtype=torch.bool) if group.apart is None else group.apart
        for row in rows[group.start : group.stop]:
            if not row.any():
                continue  # only padding: nothing of it is used
            image, place = (cut == row).all(-1).nonzero()[0].tolist()
            own = torch.zeros(len(row)) if regions is None else regions[image % len(regions), place]
            assert torch.equal(apart, own[:, None] != own)


def test_a_shifted_map_needs_four_masks_at_most():
    order = window_order(2, (40, 33), ((40, 33),), (7, 7), (3, 3), False, CPU)
    assert len(order.groups) == 4
    assert order.groups[0].apart is None
    assert order.groups[0].stop == 2 * 5 * 4
    assert len(window_order(2, (40, 33), ((40, 33),), (7, 7), (0, 0), False, CPU).groups) == 1


@pytest.mark.parametrize(("window", "shift"), WINDOWS)
@pytest.mark.parametrize("filled", [False, True])
def test_gradients_there_and_back_are_those_of_indexing(window, shift, filled):
    size, total = (5, 9), 90
    order = window_order(2, size, (size,), window, shift, False, CPU)
    x = torch.randn(total, 3, dtype=torch.float64, requires_grad=True)
    fill = torch.randn(3, dtype=torch.float64, requires_grad=True) if filled else None
    source = torch.cat([x, x.new_zeros(1, 3) if fill is None else fill[None]])
    windows, expected = order.into_windows(x, fill), source[order.tokens]
    assert torch.equal(windows, expected)
    weight = torch.randn_like(windows)
    wanted = [x] if fill is None else [x, fill]
    gradients = torch.autograd.grad((windows * weight).sum(), wanted, allow_unused=True)
    rights = torch.autograd.grad((expected * weight).sum(), wanted, allow_unused=True)
    for gradient, right, part in zip(gradients, rights, wanted, strict=True):
        gradient = torch.zeros_like(part) if gradient is None else gradient
        assert torch.allclose(gradient, right, rtol=1e-12, atol=1e-12)
    assert torch.autograd.gradcheck(order.out_of_windows, torch.randn_like(windows).requires_grad_())
    assert torch.autograd.gradgradcheck(order.into_windows, (torch.randn_like(x).requires_grad_(),))


def test_a_fill_may_have_another_precision():
    order = window_order(1, (3, 3), ((3, 3),), (2, 2), (1, 1), False, CPU)
    x = torch.randn(9, 2, dtype=torch.bfloat16, requires_grad=True)
    fill = torch.randn(2, requires_grad=True)
    order.into_windows(x, fill).sum().backward()
    assert fill.grad.tolist() == [7.0, 7.0]
    assert x.grad.dtype == torch.bfloat16


def test_few_orders_are_kept():
    for extent in range(1, 60):
        window_order(1, (extent, 9), ((extent, 9),), (4, 4), (2, 2), False, CPU)
    assert window_order.cache_info().currsize == 32
    assert padded_size((59, 9), (4, 4)) == (60, 12)
