import pytest
import torch
import torch.nn.functional as F

from src.layers.linear_axis import add_transposed, axis_blocks, full_precision, linear_axis, resized

LENGTHS = [(1,), (1, 7), (7, 1), (5, 5), (12, 47), (12, 48), (47, 12), (97, 33, 131), (20, 1000, 3), (3, 2, 1, 4)]
CPU = torch.device("cpu")


def torchs(x, lengths):
    for length in lengths[1:]:
        x = F.interpolate(x, size=length, mode="linear", align_corners=False)
    return x


@pytest.mark.parametrize("lengths", LENGTHS)
def test_shares_mix_cells_as_torch_does(lengths):
    axis = linear_axis(lengths, torch.float64, CPU)
    matrix = torch.zeros(lengths[-1], lengths[0], dtype=torch.float64)
    for place, (first, shares) in enumerate(zip(axis.first.tolist(), axis.shares, strict=True)):
        for tap, share in enumerate(shares):
            matrix[place, first + tap] += share
    expected = torchs(torch.eye(lengths[0], dtype=torch.float64)[None], lengths)[0].T
    assert torch.allclose(matrix, expected, rtol=1e-12, atol=1e-14)
    assert (axis.first.diff() >= 0).all()
    assert (axis.shares >= 0).all()


@pytest.mark.parametrize("lengths", LENGTHS)
@pytest.mark.parametrize("block", [1, 5, 64])
def test_blocks_resize_and_their_transposes_give_the_gradient(lengths, block):
    x = torch.randn(2, lengths[0], 3, dtype=torch.float64, requires_grad=True)
    factors = torch.randn(2, lengths[-1], 3, dtype=torch.float64)
    expected = torchs(x.mT, lengths).mT
    (slope,) = torch.autograd.grad(expected, x, factors)
    result, gradient = torch.full_like(factors, torch.nan), torch.zeros_like(x)
    for part in axis_blocks(lengths, block, torch.float64, CPU):
        resized(x.detach(), part, result[:, part.places])
        add_transposed(factors[:, part.places], part, gradient)
    assert torch.allclose(result, expected, rtol=1e-12, atol=1e-12)
    assert torch.allclose(gradient, slope, rtol=1e-12, atol=1e-12)


def test_cells_may_come_from_a_number_on():
    x = torch.randn(1, 12, 3, dtype=torch.float64)
    part = axis_blocks((12, 48), 8, torch.float64, CPU)[3]
    start = part.cells.start
    whole, cut = torch.empty(1, 8, 3, dtype=torch.float64), torch.empty(1, 8, 3, dtype=torch.float64)
    resized(x, part, whole)
    resized(x[:, start : part.cells.stop], part, cut, offset=start)
    assert start > 0
    assert torch.equal(whole, cut)
    gradients = torch.zeros(1, 12, 3, dtype=torch.float64), torch.zeros_like(x[:, start : part.cells.stop])
    add_transposed(whole, part, gradients[0])
    add_transposed(whole, part, gradients[1], offset=start)
    assert torch.equal(gradients[0][:, start : part.cells.stop], gradients[1])


@pytest.mark.parametrize("precision", ["highest", "high", "medium"])
def test_products_are_full_and_the_programs_precision_comes_back(precision):
    before = torch.get_float32_matmul_precision()
    try:
        torch.set_float32_matmul_precision(precision)
        backends = torch.backends.cuda.matmul, torch.backends.mkldnn.matmul
        told = [backend.fp32_precision for backend in backends]
        with full_precision():
            assert torch.backends.cuda.matmul.fp32_precision in ("ieee", "none")
            assert torch.backends.mkldnn.matmul.fp32_precision in ("ieee", "none")
        assert [backend.fp32_precision for backend in backends] == told
        assert torch.get_float32_matmul_precision() == precision
    finally:
        torch.set_float32_matmul_precision(before)
