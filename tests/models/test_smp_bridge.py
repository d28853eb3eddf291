import subprocess
import sys

import pytest
import torch

from src.models import Segmenter, SwinTransformer, UPerNetDecoder
from src.models.features import FeatureSpec

smp = pytest.importorskip("segmentation_models_pytorch")

from src.models.smp_bridge import SmpDecoder, SmpEncoder  # noqa: E402

ENCODERS = ["resnet18", "efficientnet-b0", "tu-convnext_atto", "mit_b0"]
ARCHITECTURES = ["Unet", "FPN", "Segformer"]
SIZES = [(97, 131), (33, 47), (1, 1)]


def small_swin():
    return SwinTransformer(8, (1, 1, 1, 1), (1, 1, 2, 2), window_size=4)


@pytest.mark.parametrize("name", ENCODERS)
def test_encoders_give_their_levels_at_any_size(name):
    encoder = SmpEncoder(name)
    assert [spec.stride for spec in encoder.feature_specs] == [4, 8, 16, 32]
    for size in SIZES:
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


def test_encoder_options_change_the_result():
    assert SmpEncoder("resnet18", in_channels=5)(torch.randn(2, 5, 32, 32))[0].shape == (2, 64, 8, 8)
    assert [spec.stride for spec in SmpEncoder("resnet18", depth=4).feature_specs] == [4, 8, 16]


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("encoder", [small_swin, lambda: SmpEncoder("mit_b0")])
def test_decoders_take_any_encoder_at_any_size(architecture, encoder):
    model = Segmenter(encoder(), lambda f, k: SmpDecoder(f, k, architecture), num_classes=5)
    assert model.stride == {"Unet": 1, "FPN": 4, "Segformer": 4}[architecture]
    for size in SIZES:
        output = model.train()(torch.randn(1, 3, *size))
        assert output.logits.shape == (1, 5, *FeatureSpec(5, model.stride).size(*size))
        output.logits.square().mean().backward()
        assert model.eval()(torch.randn(1, 3, *size)).logits.isfinite().all()
    assert all(parameter.grad is not None for parameter in model.parameters() if parameter.requires_grad)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_where_nothing_is_padded_the_model_is_the_librarys(architecture):
    torch.manual_seed(0)
    upsampling = {} if architecture == "Unet" else {"upsampling": 1}
    theirs = getattr(smp, architecture)("mit_b0", encoder_weights=None, classes=5, **upsampling).eval()
    ours = Segmenter(SmpEncoder("mit_b0"), lambda f, k: SmpDecoder(f, k, architecture), num_classes=5).eval()
    ours.encoder.encoder.load_state_dict(theirs.encoder.state_dict())
    heads = {name: value for name, value in theirs.state_dict().items() if not name.startswith("encoder.")}
    ours.decoder.load_state_dict(heads)
    images = torch.randn(1, 3, 64, 96)
    assert torch.allclose(ours(images).logits, theirs(images), atol=1e-6)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_a_batch_of_several_sizes_equals_its_members_alone(architecture):
    torch.manual_seed(0)
    model = Segmenter(small_swin(), lambda f, k: SmpDecoder(f, k, architecture), num_classes=5).eval()
    batch, sizes = torch.randn(2, 3, 64, 47), [(33, 47), (64, 20)]
    logits = model(batch, sizes).logits
    for index, (height, width) in enumerate(sizes):
        alone = model(batch[index : index + 1, :, :height, :width]).logits[0]
        inside = logits[index, :, : alone.shape[1], : alone.shape[2]]
        assert (inside - alone).abs().max() <= 1e-5 * alone.abs().max()


@pytest.mark.parametrize(
    ("architecture", "options"),
    [
        ("Unet", {"decoder_channels": [64, 32, 16, 8, 4]}),
        ("FPN", {"decoder_pyramid_channels": 64}),
        ("Segformer", {"decoder_segmentation_channels": 32}),
    ],
)
def test_options_reach_the_architecture(architecture, options):
    specs = small_swin().feature_specs
    counts = [
        sum(parameter.numel() for parameter in SmpDecoder(specs, 5, architecture, given).parameters())
        for given in (None, options)
    ]
    assert counts[1] < counts[0]


def test_settings_build_the_same_model_again_without_a_download():
    model = Segmenter(
        SmpEncoder("resnet18"), lambda f, k: SmpDecoder(f, k, "FPN", {"decoder_dropout": 0.0}), num_classes=5
    ).eval()
    again = Segmenter.from_settings(model.settings)
    again.load_state_dict(model.state_dict())
    images = torch.randn(1, 3, 33, 47)
    assert torch.equal(again.eval()(images).logits, model(images).logits)
    assert model.settings["init_args"]["encoder"]["init_args"]["weights"] is None


def test_the_librarys_list_of_encoders_is_left_as_it_was():
    before = set(smp.encoders.encoders)
    SmpDecoder(small_swin().feature_specs, 5)
    assert set(smp.encoders.encoders) == before


def test_models_are_imported_without_the_library():
    code = "import src.models, sys; assert 'segmentation_models_pytorch' not in sys.modules; src.models.SmpEncoder"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: SmpEncoder("no-such-net"), "encoder.name and weights must be known .* got 'no-such-net'"),
        (lambda: SmpEncoder("resnet18", weights="nothing"), "got 'resnet18' and 'nothing'"),
        (lambda: SmpEncoder("resnet18", depth=1), "encoder.depth must be between 2 and 5, got 1"),
        (lambda: SmpDecoder([FeatureSpec(3, 4)] * 4, 5), r"must have the strides \(4, 8, 16, 32\), got \[4, 4, 4, 4\]"),
        (lambda: SmpDecoder(small_swin().feature_specs, 5, "PAN"), "decoder.architecture must be .* got 'PAN'"),
        (
            lambda: SmpDecoder(small_swin().feature_specs, 5, "FPN", {"decoder_channels": 3}),
            "decoder.options of FPN must be among decoder_pyramid_channels, .* got decoder_channels",
        ),
    ],
)
def test_what_the_library_does_not_have_is_refused(build, message):
    with pytest.raises(ValueError, match=message):
        build()
