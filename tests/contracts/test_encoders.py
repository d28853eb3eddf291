"""What every encoder promises."""

import pytest
import torch

from src.models import SmpEncoder, SwinTransformerV2
from src.models.features import FeatureSpec
from src.models.settings import build, plain
from src.models.swin import SwinTransformer
from tests.models.random_weights import randomise

SMALL = {"embed_dim": 8, "depths": (2, 2, 2, 2), "num_heads": (1, 2, 2, 4)}
ENCODERS = {
    "swin": lambda: SwinTransformer(**SMALL),
    "swin that masks padding": lambda: SwinTransformer(**SMALL, padded_keys="mask", shift_covered=False),
    "swin with position": lambda: SwinTransformer(**SMALL, absolute_pos_embed=(7, 9), window_size=(3, 5)),
    "swin v2": lambda: randomise(SwinTransformerV2(**SMALL)),
    "swin v2 that masks padding": lambda: randomise(
        SwinTransformerV2(**SMALL, padded_keys="mask", shift_covered=True, pretrained_window_size=12)
    ),
    "swin v2 with position": lambda: randomise(
        SwinTransformerV2(**SMALL, absolute_pos_embed=(7, 9), window_size=(3, 5), pretrained_window_size=(6, 4, 2, 0))
    ),
    "smp": lambda: SmpEncoder("resnet18"),
}
TAKING_SIZES = [name for name, make in ENCODERS.items() if make().takes_sizes]


@pytest.fixture(params=ENCODERS)
def encoder(request):
    torch.manual_seed(0)
    return ENCODERS[request.param]().eval()


@pytest.mark.parametrize("size", [(64, 96), (97, 131), (36, 60), (33, 47), (1, 1), (2, 70)])
@torch.no_grad()
def test_levels_are_as_declared_at_any_size(encoder, size):
    features = encoder(torch.randn(2, 3, *size))
    assert all(isinstance(spec, FeatureSpec) for spec in encoder.feature_specs)
    assert [tuple(level.shape) for level in features] == [
        (2, spec.channels, -(-size[0] // spec.stride), -(-size[1] // spec.stride)) for spec in encoder.feature_specs
    ]
    assert all(level.isfinite().all() for level in features)


def test_levels_run_from_fine_to_coarse(encoder):
    strides = [spec.stride for spec in encoder.feature_specs]
    assert strides == sorted(strides)


def test_every_parameter_learns(encoder):
    sum(level.square().sum() for level in encoder(torch.randn(2, 3, 97, 131))).backward()
    assert all(parameter.grad is not None and parameter.grad.isfinite().all() for parameter in encoder.parameters())


@pytest.mark.parametrize("encoder", TAKING_SIZES, indirect=True)
@torch.no_grad()
def test_a_batch_equals_its_members_whatever_stands_in_the_padding(encoder):
    sizes = [(97, 131), (1, 1), (40, 131), (97, 3), (29, 30)]
    images = 5 * torch.randn(len(sizes), 3, 97, 131)
    for i, (height, width) in enumerate(sizes):
        alone = encoder(images[i : i + 1, :, :height, :width])
        for level, expected in zip(encoder(images, sizes), alone, strict=True):
            rows, columns = expected.shape[2:]
            error = (level[i : i + 1, :, :rows, :columns] - expected).abs().max() / expected.abs().max()
            assert error < 1e-5
            assert not level[i, :, rows:].any()
            assert not level[i, :, :, columns:].any()


@pytest.mark.parametrize("encoder", TAKING_SIZES, indirect=True)
@torch.no_grad()
def test_sizes_that_fill_the_batch_change_nothing(encoder):
    images = torch.randn(2, 3, 33, 47)
    assert all(torch.equal(a, b) for a, b in zip(encoder(images), encoder(images, [(33, 47)] * 2), strict=True))


@torch.no_grad()
def test_the_state_holds_nothing_of_the_images(encoder):
    before = {name: value.clone() for name, value in encoder.state_dict().items()}
    encoder(torch.randn(1, 3, 97, 131))
    after = encoder.state_dict()
    assert before.keys() == after.keys()
    assert all(torch.equal(before[name], after[name]) for name in before)


@torch.no_grad()
def test_settings_build_the_encoder_again(encoder):
    again = build(plain(encoder.settings))
    again.load_state_dict(encoder.state_dict())
    images = torch.randn(1, 3, 33, 47)
    assert all(torch.equal(a, b) for a, b in zip(encoder(images), again.eval()(images), strict=True))
