import pytest
import torch
import torch.nn.functional as F

from src.layers.banded_sum import banded_sums

FACTORS = torch.randn(1, 3, 23, 17, dtype=torch.float64, generator=torch.Generator().manual_seed(0))


@pytest.fixture
def logits():
    torch.manual_seed(1)
    return torch.randn(1, 3, 6, 5, dtype=torch.float64, requires_grad=True)


def scores_of(scores, rows):
    return torch.stack([(scores.sin() * FACTORS[:, :, rows]).sum(), scores.square().sum(), scores.exp().sum()])


def of_sums(sums):
    return sums[0] / (1 + sums[1]) + sums[2].log()


@pytest.mark.parametrize("max_bytes", [1, 2_000, None])
def test_a_function_of_sums_and_its_gradient_are_those_of_the_whole(logits, max_bytes):
    whole = scores_of(F.interpolate(logits, size=(23, 17), mode="bilinear", align_corners=False), slice(None))
    sums = banded_sums(logits, (23, 17), scores_of, max_bytes)
    assert torch.allclose(sums, whole, rtol=1e-12)
    (expected,) = torch.autograd.grad(of_sums(whole), logits)
    (result,) = torch.autograd.grad(of_sums(sums), logits)
    assert torch.allclose(result, expected, rtol=1e-12, atol=1e-12)


def test_the_gradient_of_sums_passes_numerical_check(logits):
    assert torch.autograd.gradcheck(lambda x: of_sums(banded_sums(x, (23, 17), scores_of, 2_000)), logits)


def test_sums_are_made_in_one_pass_and_their_gradient_in_another(logits):
    seen = []

    def watched(scores, rows):
        seen.append(scores.requires_grad)
        return scores_of(scores, rows)

    sums = banded_sums(logits, (23, 17), watched, 2_000)
    number = len(seen)
    assert number > 1
    assert not any(seen)
    of_sums(sums).backward()
    assert seen[number:] == [True] * number


def test_no_sum_keeps_anything_where_no_gradient_is_asked_for(logits):
    with torch.no_grad():
        assert banded_sums(logits, (23, 17), scores_of).grad_fn is None


def test_sums_of_half_precision_are_single_and_the_gradient_is_its_own():
    logits = torch.randn(1, 3, 6, 5).bfloat16().requires_grad_()
    sums = banded_sums(logits, (23, 17), lambda scores, rows: scores.exp().sum((0, 2, 3)))
    sums.log().sum().backward()
    assert sums.dtype == torch.float32
    assert logits.grad.dtype == torch.bfloat16
