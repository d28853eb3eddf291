import pytest
import torch
import torch.nn.functional as F

from src.layers.average_pool import GridAverage


@pytest.mark.parametrize("size", [(1, 1), (5, 7), (6, 12), (1, 13), (16, 16), (29, 2)])
@pytest.mark.parametrize("grid", [1, 2, 3, 6])
@pytest.mark.parametrize("compiling", [False, True])
def test_averages_are_those_of_adaptive_pooling(size, grid, compiling, monkeypatch):
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: compiling)
    maps = torch.randn(2, 3, *size, dtype=torch.float64, requires_grad=True)
    found, expected = GridAverage(grid)(maps), F.adaptive_avg_pool2d(maps, grid)
    assert torch.allclose(found, expected, rtol=0, atol=1e-14)
    weights = torch.randn_like(expected)
    gradients = [torch.autograd.grad((result * weights).sum(), maps)[0] for result in (found, expected)]
    assert torch.allclose(*gradients, rtol=0, atol=1e-14)
