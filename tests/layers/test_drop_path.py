import pytest
import torch

from src.layers.drop_path import DropPath


@pytest.mark.parametrize("p", [0.0, 0.25, 0.7, 1.0])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("training", [True, False])
def test_the_draws_are_those_of_torchvision(p, dtype, training):
    ops = pytest.importorskip("torchvision.ops")
    x = torch.randn(9, 3, 5, dtype=dtype)
    torch.manual_seed(4)
    expected = ops.StochasticDepth(p, "row").train(training)(x)
    torch.manual_seed(4)
    assert torch.equal(DropPath(p).train(training)(x), expected)


def test_whole_images_are_dropped_and_the_rest_scaled():
    torch.manual_seed(0)
    out = DropPath(0.5)(torch.ones(200, 2, 2))
    assert {tuple(image.unique().tolist()) for image in out} == {(0.0,), (2.0,)}


@pytest.mark.parametrize("p", [-0.1, 1.5])
def test_what_is_no_fraction_is_refused(p):
    with pytest.raises(ValueError, match=rf"p must be between 0 and 1, got {p}; .*\.$"):
        DropPath(p)
