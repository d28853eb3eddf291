import pytest
import torch
import torch.nn.functional as F

from src.models import SwinTransformer, SwinTransformerV2, swin_upernet
from tests.models.random_weights import randomise


@pytest.mark.parametrize(("size", "millions"), [("tiny", 60), ("small", 81), ("base", 121), ("large", 234)])
def test_published_sizes_have_the_published_number_of_parameters(size, millions):
    with torch.device("meta"):
        model = swin_upernet(size, num_classes=150)
    assert sum(parameter.numel() for parameter in model.parameters()) / 1e6 == pytest.approx(millions, abs=0.5)


def test_tiny_costs_the_published_operations_at_512():
    from torch.utils.flop_counter import FlopCounterMode

    with torch.device("meta"):
        model = swin_upernet("tiny", num_classes=150).eval()
        with FlopCounterMode(display=False) as counter:  # in strips it takes fewer, which a gradient does not allow
            model(torch.randn(1, 3, 512, 512).requires_grad_())
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


@pytest.mark.parametrize(("version", "encoder"), [(1, SwinTransformer), (2, SwinTransformerV2)])
def test_both_versions_of_swin_can_be_had(version, encoder):
    assert type(small(version=version).encoder) is encoder
    assert type(small().encoder) is SwinTransformer


@pytest.mark.parametrize("size", [(131, 97), (37, 53), (3, 250), (1, 1)])
@torch.no_grad()
def test_version_2_gives_finite_logits_at_any_size_and_in_batches(size):
    model = randomise(small(version=2, pretrained_window_size=6))
    images = torch.randn(2, 3, *size)
    logits = model(images).logits
    assert logits.shape == (2, 5, -(-size[0] // 4), -(-size[1] // 4))
    assert logits.isfinite().all()
    part = (-(-size[0] // 2), -(-size[1] // 3))
    joint = model(images, [part, size]).logits
    alone = model(images[:1, :, : part[0], : part[1]]).logits
    assert torch.allclose(joint[:1, :, : alone.shape[2], : alone.shape[3]], alone, rtol=1e-3, atol=1e-4)
    assert torch.allclose(joint[1:], logits[1:], rtol=1e-3, atol=1e-4)


def test_version_2_learns_from_two_steps():
    torch.manual_seed(0)
    model = small(version=2, drop_path_rate=0.0).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    images, masks = torch.randn(2, 3, 45, 61), torch.randint(5, (2, 45, 61))
    losses = []
    for _ in range(3):
        torch.manual_seed(1)  # the same dropout each time
        output = model(images)
        both = (output.logits, output.auxiliary_logits)
        loss = sum(F.cross_entropy(F.interpolate(logits, (45, 61)), masks) for logits in both)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[0] > losses[1] > losses[2]
    assert model.encoder.layers[0].blocks[0].norm1.weight.any()


@pytest.mark.parametrize("version", [0, 3, "2"])
def test_unknown_version_is_refused(version):
    with pytest.raises(ValueError, match=rf"version must be 1 or 2, got {version!r}; take one of these\.$"):
        swin_upernet("tiny", 5, version=version)


def test_unknown_size_is_refused():
    with pytest.raises(ValueError, match="size must be one of tiny, small, base, large, got 'huge'"):
        swin_upernet("huge", 5)
