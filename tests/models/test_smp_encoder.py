import subprocess
import sys

import pytest
import segmentation_models_pytorch as smp
import torch

from src.models import Segmenter, UPerNetDecoder
from src.models.settings import build, plain
from src.models.smp_encoder import SmpEncoder

ENCODERS = ["resnet18", "efficientnet-b0", "tu-convnext_atto", "mit_b0"]


@pytest.mark.parametrize("name", ENCODERS)
def test_levels_have_their_cells_at_any_size(name):
    encoder = SmpEncoder(name)
    assert [spec.stride for spec in encoder.feature_specs] == [4, 8, 16, 32]
    for size in [(97, 131), (33, 47), (1, 1)]:
        for training in (True, False):
            features = encoder.train(training)(torch.randn(1, 3, *size))
            assert [tuple(level.shape[1:]) for level in features] == [
                (spec.channels, *spec.size(*size)) for spec in encoder.feature_specs
            ]


@pytest.mark.parametrize("name", ENCODERS)
def test_encoders_feed_our_decoder_and_every_parameter_trains(name):
    model = Segmenter(SmpEncoder(name), lambda f, k: UPerNetDecoder(f, k, channels=8), num_classes=5).train()
    output = model(torch.randn(2, 3, 33, 47))
    output.logits.square().mean().backward()
    assert output.logits.shape == (2, 5, 9, 12)
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    assert all(parameter.grad is not None for parameter in trained)


def test_where_nothing_is_padded_the_encoder_is_the_librarys():
    encoder, images = SmpEncoder("resnet18").eval(), torch.randn(1, 3, 64, 96)
    for ours, theirs in zip(encoder(images), encoder.encoder(images)[2:], strict=True):
        assert torch.equal(ours, theirs)


def test_options_change_the_result():
    assert SmpEncoder("resnet18", in_channels=5)(torch.randn(2, 5, 32, 32))[0].shape == (2, 64, 8, 8)
    assert [spec.stride for spec in SmpEncoder("resnet18", depth=4).feature_specs] == [4, 8, 16]


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_an_encoder_built_where_no_gradient_is_kept_can_be_trained(mode):
    with mode():
        encoder = SmpEncoder("efficientnet-b0")
    expected = [parameter.requires_grad for parameter in SmpEncoder("efficientnet-b0").parameters()]
    assert [parameter.requires_grad for parameter in encoder.parameters()] == expected
    assert not all(expected)
    sum(level.sum() for level in encoder(torch.randn(2, 3, 32, 32))).backward()


def test_weights_are_not_recorded_so_that_building_again_downloads_nothing(monkeypatch):
    asked, get_encoder = [], smp.encoders.get_encoder

    def recorded(*args, weights, **kwargs):
        asked.append(weights)
        return get_encoder(*args, weights=None, **kwargs)

    monkeypatch.setattr(smp.encoders, "get_encoder", recorded)
    build(plain(SmpEncoder("resnet18", weights="imagenet")))
    assert asked == ["imagenet", None]


def test_models_are_imported_without_the_library():
    code = "import src.models, sys; assert 'segmentation_models_pytorch' not in sys.modules; src.models.SmpEncoder"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"name": "no-such-net"}, r"model\.model\.encoder\.name and weights must be known .* got 'no-such-net'"),
        ({"name": "resnet18", "weights": "nothing"}, "got 'resnet18' and 'nothing'"),
        ({"name": "resnet18", "depth": 1}, r"model\.model\.encoder\.depth must be between 2 and 5, got 1; 5 gives"),
    ],
)
def test_what_the_library_does_not_have_is_refused(options, message):
    with pytest.raises(ValueError, match=message):
        SmpEncoder(**options)
