import pytest
import torch
import torch.nn.functional as F

from src.layers.banded_cross_entropy import Targets, banded_cross_entropy, banded_pixel_losses

SIZES = [
    ((9, 12), (33, 47)),
    ((1, 1), (5, 3)),
    ((1, 13), (1, 52)),
    ((40, 30), (17, 11)),
    ((8, 8), (8, 8)),
    ((5, 3), (20, 9)),
]


def batch(cells, size, dtype=torch.float64, scale=3.0):
    generator = torch.Generator().manual_seed(0)
    logits = scale * torch.randn(3, 5, *cells, generator=generator, dtype=torch.float64)
    classes = torch.randint(0, 5, (3, *size), generator=generator)
    factors = torch.rand(3, *size, generator=generator, dtype=torch.float64)
    factors[0, ::2] = 0
    return logits.to(dtype).requires_grad_(), classes, factors


def pixel_losses(logits, classes, **options):
    scores = F.interpolate(logits, size=classes.shape[-2:], mode="bilinear", align_corners=False)
    return F.cross_entropy(scores, classes, reduction="none", **options)


@pytest.mark.parametrize(("cells", "size"), SIZES)
@pytest.mark.parametrize("smoothing", [0.0, 0.2])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("max_bytes", [1, 3_000, None])
def test_sum_and_gradient_are_torchs_at_full_size(cells, size, smoothing, weighted, max_bytes):
    logits, classes, factors = batch(cells, size)
    weight = torch.tensor([0.5, 1, 2, 0, 1], dtype=torch.float64) if weighted else None
    expected = (pixel_losses(logits, classes, weight=weight, label_smoothing=smoothing) * factors).sum()
    total = banded_cross_entropy(logits, Targets(classes, factors, weight, smoothing), max_bytes)
    assert total.item() == pytest.approx(expected.item(), rel=1e-12)
    gradients = [torch.autograd.grad(3 * value, logits)[0] for value in (total, expected)]
    assert torch.allclose(*gradients, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.float16, 1e-3), (torch.bfloat16, 1e-2)])
def test_lower_precision_is_scored_in_single(dtype, tolerance):
    logits, classes, factors = batch((9, 12), (33, 47), dtype)
    exact = logits.detach().double().requires_grad_()
    total = banded_cross_entropy(logits, Targets(classes, factors))
    expected = banded_cross_entropy(exact, Targets(classes, factors))
    assert total.dtype == torch.float32
    assert total.item() == pytest.approx(expected.item(), rel=1e-5)
    result, slope = torch.autograd.grad(total, logits)[0], torch.autograd.grad(expected, exact)[0]
    assert result.dtype == dtype
    assert (result - slope).abs().max() <= tolerance * slope.abs().max()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_right_class_of_no_probability_keeps_its_loss(dtype):
    logits, classes, factors = batch((9, 12), (33, 47), dtype, scale=400.0)
    expected = pixel_losses(logits, classes)
    assert expected.max() > 500  # far below the smallest probability of float32
    assert torch.allclose(banded_pixel_losses(logits, classes), expected, rtol=1e-5, atol=1e-3)
    total = banded_cross_entropy(logits, Targets(classes, factors))
    assert total.item() == pytest.approx((expected * factors).sum().item(), rel=1e-5)


def test_a_pixel_that_does_not_count_may_have_any_score():
    logits = torch.zeros(1, 2, 1, 2)
    logits[0, 0, 0, 0] = -torch.inf
    logits.requires_grad_()
    classes, counted = torch.zeros(1, 1, 2, dtype=torch.int64), torch.tensor([[[False, True]]])
    for smoothing in (0.0, 0.5):
        total = banded_cross_entropy(logits, Targets(classes, counted, None, smoothing))
        assert total.item() == pytest.approx(torch.tensor(2.0).log().item())


@pytest.mark.parametrize("max_bytes", [1, 3_000, None])
def test_losses_of_pixels_are_torchs(max_bytes):
    logits, classes, _ = batch((9, 12), (33, 47))
    losses = banded_pixel_losses(logits, classes, max_bytes)
    assert not losses.requires_grad
    assert torch.allclose(losses, pixel_losses(logits, classes), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_the_gradient_lies_as_the_logits_do(layout):
    logits, classes, factors = batch((9, 12), (33, 47))
    logits = logits.detach().contiguous(memory_format=layout).requires_grad_()
    total = banded_cross_entropy(logits, Targets(classes, factors))
    (gradient,) = torch.autograd.grad(total, logits)
    assert gradient.is_contiguous(memory_format=layout)


def test_autocast_rounds_no_score():
    logits, classes, factors = batch((9, 12), (33, 47), torch.float32)
    with torch.autocast("cpu", torch.bfloat16):
        inside = banded_cross_entropy(logits, Targets(classes, factors))
    assert torch.equal(inside, banded_cross_entropy(logits, Targets(classes, factors)))


def test_without_gradients_nothing_is_kept():
    logits, classes, factors = batch((9, 12), (33, 47))
    with torch.no_grad():
        assert banded_cross_entropy(logits, Targets(classes, factors)).grad_fn is None
