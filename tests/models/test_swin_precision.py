"""Half precision and compilation of the encoders."""

import warnings

import pytest
import torch
import torch.nn.functional as F

from src.models.swin import SwinTransformer
from src.models.swin_v2 import SwinTransformerV2
from tests.models.random_weights import randomise

SMALL = {"embed_dim": 16, "depths": (2, 2), "num_heads": (1, 2), "window_size": 7}
VERSIONS = [SwinTransformer, SwinTransformerV2]


def build(version):
    torch.manual_seed(0)
    return randomise(version(**SMALL, drop_path_rate=0.0))


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("cast", [True, False])
def test_half_precision_agrees_with_single(version, dtype, cast):
    encoder = build(version).eval()
    images = F.interpolate(torch.randn(1, 3, 8, 7), (60, 52), mode="bicubic")
    with torch.no_grad():
        expected = encoder(images)
        if cast:
            got = encoder.to(dtype)(images.to(dtype))
        else:
            with torch.autocast("cpu", dtype):
                got = encoder(images)
    for level, right in zip(got, expected, strict=True):
        assert level.dtype == dtype
        error = (level.float() - right).norm() / right.norm()
        assert 0 < error < 0.05


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_training_runs_under_autocast(version, dtype):
    encoder = build(version).train()
    with torch.autocast("cpu", dtype):
        loss = sum(level.float().square().mean() for level in encoder(torch.randn(2, 3, 60, 52)))
    loss.backward()
    for parameter in encoder.parameters():
        assert parameter.grad.dtype == torch.float32
        assert parameter.grad.isfinite().all()


@pytest.mark.parametrize("version", VERSIONS)
def test_gradients_lie_in_memory_as_their_weights_do(version):
    encoder = build(version).train()
    images = torch.randn(2, 3, 36, 44).to(memory_format=torch.channels_last)
    sum(level.square().mean() for level in encoder(images)).backward()
    strided = {
        name: parameter.grad.stride()
        for name, parameter in encoder.named_parameters()
        if parameter.grad.stride() != parameter.stride()
    }
    assert strided == {}


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("training", [False, True])
def test_the_encoder_is_one_graph(version, training):
    encoder = build(version).train(training)
    images = torch.randn(2, 3, 36, 44)
    torch._dynamo.reset()
    compiled = torch.compile(encoder, backend="aot_eager", fullgraph=True, dynamic=False)
    with warnings.catch_warnings(), torch.set_grad_enabled(training):
        warnings.simplefilter("ignore")
        got, expected = compiled(images), encoder(images)
    for level, right in zip(got, expected, strict=True):
        assert torch.allclose(level, right, rtol=1e-4, atol=1e-5)
    if training:
        gradients = [
            torch.autograd.grad(sum(level.square().mean() for level in levels), list(encoder.parameters()))
            for levels in (got, expected)
        ]
        for gradient, right in zip(*gradients, strict=True):
            assert torch.allclose(gradient, right, rtol=1e-3, atol=1e-5)
