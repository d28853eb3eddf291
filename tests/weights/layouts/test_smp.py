import pytest
import torch
from safetensors.torch import save_file

from src.inference import resize_logits
from src.models.swin import SwinTransformer
from src.weights.layouts.recognise import kind_of, layout_named
from tests.weights.layouts.reading import SMALL, assert_round_trip, assert_same, random_weights, read, segmenter_with

smp = pytest.importorskip("segmentation_models_pytorch")
pytest.importorskip("timm")


def peer(size=224):
    name = "tu-swin_tiny_patch4_window7_224"
    return smp.UPerNet(name, encoder_weights=None, classes=5, decoder_channels=32, img_size=size, **SMALL).eval()


def segmenter(state, eps=1e-6, shift_covered=False):
    model = segmenter_with(state, SwinTransformer(**SMALL, shift_covered=shift_covered), 5)
    for i in range(4):
        model.encoder.get_submodule(f"norm{i}").eps = eps
    return model


def logits(theirs, images):
    """Its logits at stride 4; it upsamples them with corners aligned, unlike everyone else."""
    assert theirs.segmentation_head[1].align_corners
    return theirs.segmentation_head[0](theirs.decoder(theirs.encoder(images)))


@torch.no_grad()
def test_logits_equal_smps_where_nothing_is_padded():
    theirs = random_weights(peer())
    found, state, left_over = read(theirs.state_dict())
    assert (found.layout.name, found.prefix, found.root, left_over) == ("smp", "", "encoder.model.", [])
    assert kind_of(state) == "segmentor"
    images = torch.randn(1, 3, 224, 224)
    assert_same(segmenter(state)(images).logits, logits(theirs, images))


@torch.no_grad()
def test_logits_are_others_where_smp_pads_after_the_shift():
    theirs, padded = random_weights(peer()), peer(256)
    padded.load_state_dict(theirs.state_dict())
    _, state, _ = read(theirs.state_dict())
    images = torch.randn(1, 3, 256, 256)
    ours, expected = segmenter(state)(images).logits, logits(padded, images)
    assert (ours - expected).abs().max() / expected.abs().max() > 1e-3


@torch.no_grad()
def test_the_constant_of_smps_norms_counts_where_features_are_faint():
    theirs = random_weights(peer())
    for name in ("patch_embed.norm.weight", "patch_embed.norm.bias"):
        theirs.encoder.model.get_parameter(name).mul_(1e-3)
    for block in theirs.encoder.model.layers_0.blocks:
        for part in (block.attn.proj, block.mlp.fc2):
            part.weight.mul_(1e-3)
            part.bias.mul_(1e-3)
    _, state, _ = read(theirs.state_dict())
    images = torch.randn(1, 3, 224, 224)
    expected = logits(theirs, images)
    assert_same(segmenter(state)(images).logits, expected)
    published = segmenter(state, eps=1e-5)(images).logits
    assert (published - expected).abs().max() / expected.abs().max() > 1e-4


@pytest.mark.parametrize("size", [(224, 224), (97, 131)])
@torch.no_grad()
def test_logits_equal_transformers_upernet_with_the_same_weights(size, tmp_path):
    transformers = pytest.importorskip("transformers")
    _, state, _ = read(random_weights(peer()).state_dict())
    swin = transformers.SwinConfig(
        embed_dim=24,
        depths=[2, 2, 2, 2],
        num_heads=[1, 2, 3, 4],
        out_features=["stage1", "stage2", "stage3", "stage4"],
    )
    config = transformers.UperNetConfig(backbone_config=swin, hidden_size=32, use_auxiliary_head=False, num_labels=5)
    written, left_over = layout_named("transformers", "segmentor", 1).to_theirs(state, "segmentor")
    assert left_over == []
    config.save_pretrained(tmp_path)
    save_file(written, tmp_path / "model.safetensors", metadata={"format": "pt"})
    theirs, told = transformers.UperNetForSemanticSegmentation.from_pretrained(tmp_path, output_loading_info=True)
    assert not any(told.values()), told
    images = torch.randn(1, 3, *size)
    ours = segmenter(state, eps=1e-5, shift_covered=True)
    assert_same(resize_logits(ours(images).logits, size), theirs.eval()(images).logits)


@torch.no_grad()
def test_smp_loads_what_is_written():
    theirs = random_weights(peer())
    found, state, _ = read(theirs.state_dict())
    assert_round_trip(theirs.state_dict(), found, state)
    fresh = peer()
    fresh.load_state_dict(layout_named("smp", "segmentor", 1).to_theirs(state, "segmentor")[0], strict=True)
    images = torch.randn(1, 3, 224, 224)
    assert torch.equal(fresh(images), theirs(images))


def test_lateral_convolutions_run_from_fine_to_coarse_in_ours():
    state = peer().state_dict()
    _, ours, _ = read(state)
    for k in range(3):
        name = f"decoder.fpn_lateral_blocks.{2 - k}.conv_norm_relu.0.weight"
        assert ours[f"decoder.lateral_convs.{k}.conv.weight"] is state[name]
        assert state[name].shape[1] == 24 * 2**k


def test_another_decoder_on_the_same_encoder_is_an_encoder_of_timm():
    theirs = smp.Unet("tu-swin_tiny_patch4_window7_224", encoder_weights=None, encoder_depth=5, classes=5, **SMALL)
    found, state, _ = read(theirs.state_dict())
    assert (found.layout.name, found.prefix, kind_of(state)) == ("timm", "encoder.model.", "encoder")
