import functools

import pytest
import segmentation_models_pytorch as smp
import torch

import src.models
from src.models import Segmenter, SwinTransformer
from src.models.features import FeatureSpec
from src.models.smp_decoders import SmpFPN, SmpSegformer, SmpUnet
from src.models.smp_encoder import SmpEncoder

DECODERS = {"Unet": SmpUnet, "FPN": SmpFPN, "Segformer": SmpSegformer}
STRIDES = {"Unet": 1, "FPN": 4, "Segformer": 4}
SPECS = tuple(FeatureSpec(channels, stride) for channels, stride in [(8, 4), (16, 8), (32, 16), (64, 32)])


def small_swin():
    return SwinTransformer(8, (1, 1, 1, 1), (1, 1, 2, 2), window_size=4)


def maps():
    generator = torch.Generator().manual_seed(1)
    return [torch.randn(2, spec.channels, *spec.size(33, 47), generator=generator) for spec in SPECS]


@pytest.mark.parametrize("name", DECODERS)
@pytest.mark.parametrize("encoder", [small_swin, lambda: SmpEncoder("mit_b0")])
def test_decoders_take_any_encoder_at_any_size(name, encoder):
    model = Segmenter(encoder(), DECODERS[name], num_classes=5)
    assert model.stride == STRIDES[name]
    for size in [(97, 131), (33, 47), (1, 1)]:
        output = model.train()(torch.randn(1, 3, *size))
        assert output.logits.shape == (1, 5, *FeatureSpec(5, model.stride).size(*size))
        output.logits.square().mean().backward()
        assert model.eval()(torch.randn(1, 3, *size)).logits.isfinite().all()
    assert all(parameter.grad is not None for parameter in model.parameters() if parameter.requires_grad)


@pytest.mark.parametrize("name", DECODERS)
def test_where_nothing_is_padded_the_model_is_the_librarys(name):
    torch.manual_seed(0)
    upsampling = {} if name == "Unet" else {"upsampling": 1}
    theirs = getattr(smp, name)("mit_b0", encoder_weights=None, classes=5, **upsampling).eval()
    ours = Segmenter(SmpEncoder("mit_b0"), DECODERS[name], num_classes=5).eval()
    ours.encoder.encoder.load_state_dict(theirs.encoder.state_dict())
    heads = {name: value for name, value in theirs.state_dict().items() if not name.startswith("encoder.")}
    ours.decoder.load_state_dict(heads)
    images = torch.randn(1, 3, 64, 96)
    assert torch.allclose(ours(images).logits, theirs(images), atol=1e-6)


@pytest.mark.parametrize("name", DECODERS)
def test_a_batch_of_several_sizes_equals_its_members_alone(name):
    torch.manual_seed(0)
    model = Segmenter(small_swin(), DECODERS[name], num_classes=5).eval()
    batch, sizes = torch.randn(2, 3, 64, 47), [(33, 47), (64, 20)]
    logits = model(batch, sizes).logits
    for index, (height, width) in enumerate(sizes):
        alone = model(batch[index : index + 1, :, :height, :width]).logits[0]
        inside = logits[index, :, : alone.shape[1], : alone.shape[2]]
        assert (inside - alone).abs().max() <= 1e-5 * alone.abs().max()


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("Unet", {"decoder_channels": [64, 32, 16, 8, 4]}),
        ("Unet", {"decoder_use_norm": "identity"}),
        ("Unet", {"decoder_attention_type": "scse"}),
        ("Unet", {"decoder_interpolation": "bilinear"}),
        ("FPN", {"decoder_pyramid_channels": 64}),
        ("FPN", {"decoder_segmentation_channels": 64}),
        ("FPN", {"decoder_merge_policy": "cat"}),
        ("FPN", {"decoder_dropout": 0.9}),
        ("FPN", {"decoder_interpolation": "bilinear"}),
        ("Segformer", {"decoder_segmentation_channels": 32}),
    ],
)
def test_every_option_changes_the_result(name, options):
    def logits(**given):
        torch.manual_seed(0)
        decoder = DECODERS[name](SPECS, 5, **given).train()
        torch.manual_seed(0)
        return decoder(maps())

    assert torch.equal(logits(), logits())
    assert not torch.allclose(logits(), logits(**options))


def test_settings_build_the_same_model_again():
    decoder = functools.partial(SmpFPN, decoder_dropout=0.0)
    model = Segmenter(SmpEncoder("resnet18"), decoder, num_classes=5).eval()
    again = Segmenter.from_settings(model.settings)
    again.load_state_dict(model.state_dict())
    images = torch.randn(1, 3, 33, 47)
    assert torch.equal(again.eval()(images).logits, model(images).logits)
    assert again.settings == model.settings


def test_the_librarys_list_of_encoders_is_left_as_it_was():
    before = set(smp.encoders.encoders)
    SmpUnet(SPECS, 5)
    assert set(smp.encoders.encoders) == before


def test_decoders_are_found_among_the_models():
    assert (src.models.SmpUnet, src.models.SmpFPN, src.models.SmpSegformer) == (SmpUnet, SmpFPN, SmpSegformer)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: SmpUnet([FeatureSpec(3, 4)] * 4, 5), r"have the strides \(4, 8, 16, 32\), got \(4, 4, 4, 4\)"),
        (lambda: SmpUnet(SPECS, 5, decoder_channels=(8, 8)), r"decoder_channels must be five .*got \(8, 8\)"),
        (lambda: SmpUnet(SPECS, 5, decoder_use_norm="layer"), "decoder_use_norm must be one of .*got 'layer'"),
        (lambda: SmpUnet(SPECS, 5, decoder_attention_type="cbam"), "decoder_attention_type must be .*got 'cbam'"),
        (lambda: SmpFPN(SPECS, 5, decoder_merge_policy="mean"), "decoder_merge_policy must be .*got 'mean'"),
        (lambda: SmpFPN(SPECS, 5, decoder_interpolation="cubic"), "decoder_interpolation must be .*got 'cubic'"),
    ],
)
def test_what_the_library_does_not_have_is_refused(build, message):
    with pytest.raises(ValueError, match=message):
        build()
