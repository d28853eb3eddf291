import pytest
import torch
import torch.nn.functional as F

from src.layers.banded_sum import banded_sum

FACTORS = torch.randn(1, 3, 23, 17, dtype=torch.float64, generator=torch.Generator().manual_seed(0))


def score(scores, rows):
    return (scores.sin() * FACTORS[:, :, rows]).sum()


@pytest.fixture
def logits():
    torch.manual_seed(1)
    return torch.randn(1, 3, 6, 5, dtype=torch.float64, requires_grad=True)


@pytest.mark.parametrize("max_bytes", [1, 2_000, None])
def test_sum_and_gradient_are_those_of_the_whole(logits, max_bytes):
    whole = score(F.interpolate(logits, size=(23, 17), mode="bilinear", align_corners=False), slice(None))
    total = banded_sum(logits, (23, 17), score, max_bytes)
    assert torch.allclose(total, whole, rtol=1e-12)
    (expected,), (result,) = torch.autograd.grad(3 * whole, logits), torch.autograd.grad(3 * total, logits)
    assert torch.allclose(result, expected, rtol=1e-12, atol=1e-12)


def test_gradient_passes_numerical_check(logits):
    assert torch.autograd.gradcheck(lambda x: banded_sum(x, (23, 17), score, 2_000), logits)


def test_each_band_is_scored_once(logits):
    seen = []

    def counted(scores, rows):
        seen.extend(range(rows.start, rows.stop))
        return scores.sum()

    banded_sum(logits, (23, 17), counted, 2_000).backward()
    assert seen == list(range(23))


def test_nothing_is_kept_where_no_gradient_is_asked_for(logits):
    with torch.no_grad():
        assert banded_sum(logits, (23, 17), score).grad_fn is None
    assert banded_sum(logits.detach(), (23, 17), score).grad_fn is None


def test_no_gradient_is_computed_where_none_is_kept(logits):
    seen = []

    def watched(scores, rows):
        seen.append(scores.requires_grad)
        return score(scores, rows)

    with torch.no_grad():
        banded_sum(logits, (23, 17), watched)
    assert not any(seen)
    banded_sum(logits, (23, 17), watched)
    assert seen[-1]


def test_half_precision_is_scored_in_single_and_gets_its_own_gradient():
    logits = torch.randn(1, 3, 6, 5).bfloat16().requires_grad_()
    total = banded_sum(logits, (23, 17), lambda scores, rows: scores.square().sum())
    total.backward()
    assert total.dtype == torch.float32
    assert logits.grad.dtype == torch.bfloat16
