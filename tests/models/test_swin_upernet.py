import pytest
import torch

from src.models import swin_upernet


@pytest.mark.parametrize(("size", "millions"), [("tiny", 60), ("small", 81), ("base", 121), ("large", 234)])
def test_published_sizes_have_the_published_number_of_parameters(size, millions):
    with torch.device("meta"):
        model = swin_upernet(size, num_classes=150)
    assert sum(parameter.numel() for parameter in model.parameters()) / 1e6 == pytest.approx(millions, abs=0.5)


def test_tiny_costs_the_published_operations_at_512():
    from torch.utils.flop_counter import FlopCounterMode

    with torch.device("meta"):
        model = swin_upernet("tiny", num_classes=150).eval()
        with FlopCounterMode(display=False) as counter:
            model(torch.randn(1, 3, 512, 512))
    assert counter.get_total_flops() / 2e9 == pytest.approx(236, rel=0.01)


@pytest.mark.parametrize(
    ("size", "settings", "channels"),
    [
        ("tiny", {}, 96),
        ("small", {}, 96),
        ("base", {}, 128),
        ("large", {}, 192),
        ("tiny", {"embed_dim": 48, "num_heads": (3, 6, 12, 24)}, 48),
    ],
)
def test_every_size_builds_without_channel_lists(size, settings, channels):
    with torch.device("meta"):
        model = swin_upernet(size, 5, **settings).eval()
        logits = model(torch.randn(1, 3, 64, 64)).logits
    assert model.feature_specs[0].channels == channels
    assert logits.shape == (1, 5, 16, 16)


def small(**settings):
    return swin_upernet("tiny", 5, **{"embed_dim": 8, "depths": (1, 1, 1, 1), "num_heads": (1, 1, 2, 2)} | settings)


def test_settings_of_the_encoder_and_channels_of_the_image_are_passed_on():
    model = small(in_channels=5, window_size=4).eval()
    assert model(torch.randn(1, 5, 40, 40)).logits.shape == (1, 5, 10, 10)
    assert model.settings["init_args"]["encoder"]["init_args"]["window_size"] == 4


@pytest.mark.parametrize("size", [(500, 333), (36, 60), (32, 32)])
def test_any_size_gives_finite_logits(size):
    logits = small().eval()(torch.randn(1, 3, *size)).logits
    assert logits.shape[-2:] == (-(-size[0] // 4), -(-size[1] // 4))
    assert logits.isfinite().all()


@pytest.mark.parametrize(("batch", "side"), [(2, 32), (1, 64), (1, 32)])
def test_images_of_one_coarse_cell_train(batch, side):
    model = small().train()
    output = model(torch.randn(batch, 3, side, side))
    (output.logits.square().mean() + output.auxiliary_logits.square().mean()).backward()
    gradients = [parameter.grad for parameter in model.parameters()]
    assert all(gradient is not None and gradient.isfinite().all() for gradient in gradients)


def test_unknown_size_is_refused():
    with pytest.raises(ValueError, match="size must be one of tiny, small, base, large, got 'huge'"):
        swin_upernet("huge", 5)
