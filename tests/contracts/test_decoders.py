"""Every decoder through one contract: built from feature specs, any size, gradients, settings."""

import functools

import pytest
import torch

from src.models import FCNHead, FeatureSpec, SmpFPN, SmpSegformer, SmpUnet, UPerNetDecoder
from src.models.settings import build, plain

SPECS = (FeatureSpec(4, 4), FeatureSpec(6, 8), FeatureSpec(8, 16), FeatureSpec(10, 32))
OTHER_SPECS = (FeatureSpec(3, 4), FeatureSpec(5, 8), FeatureSpec(7, 16), FeatureSpec(9, 32))

DECODERS = {
    "upernet": functools.partial(UPerNetDecoder, channels=8),
    "upernet-group": functools.partial(UPerNetDecoder, channels=8, norm="group"),
    "fcn": functools.partial(FCNHead, channels=8),
    "fcn-finest": functools.partial(FCNHead, channels=8, level=0),
    "unet": functools.partial(SmpUnet, decoder_channels=(16, 16, 8, 8, 8)),
    "fpn": functools.partial(SmpFPN, decoder_pyramid_channels=32),
    "segformer": functools.partial(SmpSegformer, decoder_segmentation_channels=8),
}


@pytest.fixture(params=DECODERS)
def decoder(request):
    torch.manual_seed(0)
    return DECODERS[request.param](SPECS, 5)


def maps(size, specs=SPECS, batch=2):
    generator = torch.Generator().manual_seed(1)
    return [torch.randn(batch, spec.channels, *spec.size(*size), generator=generator) for spec in specs]


@pytest.mark.parametrize("size", [(1, 1), (33, 47), (36, 60), (97, 131), (64, 64)])
def test_logits_cover_the_image_at_the_decoders_stride(decoder, size):
    logits = decoder.eval()(maps(size))
    cells = FeatureSpec(5, decoder.stride).size(*size)
    assert logits.shape[:2] == (2, 5)
    assert logits.shape[2] >= cells[0]
    assert logits.shape[3] >= cells[1]
    assert logits.isfinite().all()


@pytest.mark.parametrize(("size", "batch"), [((33, 47), 2), ((32, 32), 2), ((64, 64), 1), ((1, 1), 1)])
def test_every_used_parameter_gets_a_finite_gradient(decoder, size, batch):
    decoder.train()(maps(size, batch=batch)).square().mean().backward()
    assert all(parameter.grad is not None and parameter.grad.isfinite().all() for parameter in decoder.parameters())


def test_an_image_gets_in_a_batch_what_it_gets_alone(decoder):
    features = maps((33, 47), batch=3)
    together = decoder.eval()(features)
    alone = torch.cat([decoder([level[index : index + 1] for level in features]) for index in range(3)])
    assert (together - alone).abs().max() <= 1e-5 * alone.abs().max()


def test_features_are_left_as_they_are(decoder):
    features = maps((33, 47))
    decoder.train()(features)
    assert all(torch.equal(a, b) for a, b in zip(features, maps((33, 47)), strict=True))


def test_settings_build_the_same_decoder_again(decoder):
    again = build(plain(decoder))
    again.load_state_dict(decoder.state_dict())
    assert torch.equal(again.eval()(maps((33, 47))), decoder.eval()(maps((33, 47))))
    assert again.stride == decoder.stride


@pytest.mark.parametrize("name", DECODERS)
def test_channels_follow_the_encoder(name):
    decoder = DECODERS[name](OTHER_SPECS, 3).eval()
    assert decoder(maps((33, 47), OTHER_SPECS)).shape[1] == 3


def test_maps_of_another_encoder_are_refused(decoder):
    with pytest.raises(ValueError, match=rf"{type(decoder).__name__}: level 0 must be \(B, 4, h, w\), got \(2, 3,"):
        decoder(maps((33, 47), OTHER_SPECS))
