from unittest import mock

import pytest
import torch
import torch.nn.functional as F

from src.layers.masked_attention import attend

SHAPES = [(1, 1, 1, 1), (3, 2, 5, 3), (2, 3, 7, 8)]  # (M, heads, N, d)


def inputs(shape, dtype=torch.float64):
    torch.manual_seed(0)
    mask = torch.randn(1, shape[1], shape[2], shape[2], dtype=dtype)
    return [torch.randn(shape, dtype=dtype) for _ in range(3)] + [mask]


def naive(q, k, v, mask, scale):
    out = torch.zeros_like(q)
    for window in range(q.shape[0]):
        for head in range(q.shape[1]):
            for query in range(q.shape[2]):
                logits = (k[window, head] * q[window, head, query]).sum(1) * scale + mask[0, head, query]
                weights = logits.exp() / logits.exp().sum()
                out[window, head, query] = (weights[:, None] * v[window, head]).sum(0)
    return out


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("scale", [None, 0.3])
@pytest.mark.parametrize("trained", [True, False])
def test_values_and_gradients_are_those_of_a_loop(shape, scale, trained):
    parts = [part.requires_grad_() for part in inputs(shape)]
    parts[3].requires_grad_(trained)
    wanted = parts if trained else parts[:3]
    expected = naive(*parts, shape[-1] ** -0.5 if scale is None else scale)
    out = attend(*parts, scale=scale)
    assert torch.allclose(out, expected, rtol=1e-12, atol=1e-12)
    weight = torch.randn_like(out)
    gradients = torch.autograd.grad((out * weight).sum(), wanted)
    for gradient, right in zip(gradients, torch.autograd.grad((expected * weight).sum(), wanted), strict=True):
        assert torch.allclose(gradient, right, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("trained", [True, False])
def test_dropout_drops_weights(trained):
    parts = inputs((2, 3, 7, 8))
    parts[3].requires_grad_(trained)
    assert not torch.allclose(attend(*parts, dropout=0.5), attend(*parts))
    assert not attend(*parts, dropout=1.0).any()


@pytest.mark.parametrize(
    ("dtype", "trained", "fused"),
    [
        (torch.float32, True, False),
        (torch.float64, True, False),
        (torch.float32, False, True),
        (torch.bfloat16, True, True),
        (torch.float16, True, True),
    ],
)
def test_plain_products_serve_where_no_kernel_trains_the_mask(dtype, trained, fused):
    parts = inputs((2, 3, 7, 8), dtype)
    parts[3].requires_grad_(trained)
    with mock.patch.object(F, "scaled_dot_product_attention", wraps=F.scaled_dot_product_attention) as call:
        out = attend(*parts)
        with torch.no_grad():
            attend(*parts)
    assert call.call_count == fused + 1
    exact = attend(*(part.double() for part in parts))
    assert torch.allclose(out.double(), exact, rtol=0, atol=3e-2 if dtype == torch.bfloat16 else 3e-3)
