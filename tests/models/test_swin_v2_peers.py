"""The encoder of version 2 against torchvision's, transformers' and timm's, from the same random weights."""

import pytest
import torch
import torch.nn.functional as F
from torchvision.models import swin_transformer as torchvision_swin

from src.models.swin_v2 import SwinTransformerV2
from tests.models import peer_names
from tests.models.random_weights import randomise

SMALL = {"embed_dim": 24, "depths": (2, 2, 2, 2), "num_heads": (1, 2, 3, 4)}
SIZES = [(256, 256), (97, 131), (37, 53), (33, 250), (8, 8)]
PRECISIONS = [(torch.float32, 1e-5), (torch.float64, 1e-10)]


def in_double(peer, known=None):
    """Computes the peers' coordinates in double precision, in which they keep what they computed in single."""
    for module in peer.modules():
        if hasattr(module, "relative_coords_table") and module.relative_coords_table.dtype == torch.float64:
            extents = [(extent + 1) // 2 for extent in module.relative_coords_table.shape[1:3]]
            reaches = extents if known is None else known
            axes = [
                torch.arange(1 - extent, extent).double() * 8 / max(reach - 1, 1)
                for extent, reach in zip(extents, reaches, strict=True)
            ]
            table = torch.stack(torch.meshgrid(*axes, indexing="ij"), -1)[None]
            table = table.sign() * (1 + table.abs()).log2() / 3
            assert torch.allclose(module.relative_coords_table, table, rtol=1e-6, atol=1e-6)
            module.relative_coords_table.copy_(table)
    return peer


def sizes_of(model):
    attentions = [stage.blocks[0].attn for stage in model.layers]
    return {
        "embed_dim": model.feature_specs[0].channels,
        "depths": [len(stage.blocks) for stage in model.layers],
        "num_heads": [attention.num_heads for attention in attentions],
        "window_size": list(attentions[0].window),
    }


def normed(model, features):
    return [model.get_submodule(f"norm{i}")(x).permute(0, 3, 1, 2) for i, x in enumerate(features)]


def torchvision_peer(model, dtype):
    peer = torchvision_swin.SwinTransformer(
        [4, 4],
        **sizes_of(model),
        block=torchvision_swin.SwinTransformerBlockV2,
        downsample_layer=torchvision_swin.PatchMergingV2,
    ).to(dtype)
    without = r"^norm|^head|relative_position_index|relative_coords_table"
    peer_names.load(peer, peer_names.torchvision_swin(model.state_dict()), without)
    return in_double(peer.eval())


def torchvision_features(model, images, peer=None):
    peer = torchvision_peer(model, images.dtype) if peer is None else peer
    x = F.pad(images, (0, -images.shape[3] % 4, 0, -images.shape[2] % 4))  # torchvision drops incomplete patches
    features = []
    for i, layer in enumerate(peer.features):
        x = layer(x)
        if i % 2:
            features.append(x)
    return normed(model, features)


def transformers_features(model, images, pretrained_window_size=0):
    transformers = pytest.importorskip("transformers")
    sizes = sizes_of(model)
    window = sizes.pop("window_size")[0]
    config = transformers.Swinv2Config(
        image_size=32 * (window + 1),  # it fixes windows, and which of them shift, by this
        window_size=window,
        pretrained_window_sizes=[pretrained_window_size] * 4,
        out_features=["stage1", "stage2", "stage3", "stage4"],
        layer_norm_eps=1e-5,
        **sizes,
    )
    peer = transformers.models.swinv2.Swinv2Backbone(config).to(images.dtype).eval()
    peer_names.load(peer, peer_names.transformers_swin_v2(model.state_dict()), "^$")
    in_double(peer, [pretrained_window_size] * 2 if pretrained_window_size else None)
    return normed(model, [level.permute(0, 2, 3, 1) for level in peer(images).feature_maps])


def timm_features(model, images):
    peer_class = pytest.importorskip("timm.models.swin_transformer_v2").SwinTransformerV2
    peer = peer_class(img_size=images.shape[2:], num_classes=0, **sizes_of(model)).to(images.dtype).eval()
    peer_names.load(peer, peer_names.timm_swin_v2(model.state_dict()), r"^norm")
    x, features = in_double(peer).patch_embed(images), []
    for layer in peer.layers:
        x = layer(x)
        features.append(x)
    return normed(model, features)


def assert_same(features, expected, tolerance):
    for level, (ours, theirs) in enumerate(zip(features, expected, strict=True)):
        assert ours.shape == theirs.shape
        assert theirs.abs().max() > 1
        assert theirs.std() > 0.3
        difference = (ours - theirs).abs().max() / theirs.abs().max()
        assert difference < tolerance, f"level {level}: {difference}"


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("window_size", [8, (4, 6), (7, 3)])
@pytest.mark.parametrize(("dtype", "tolerance"), PRECISIONS)
@torch.no_grad()
def test_features_equal_torchvisions(size, window_size, dtype, tolerance):
    model = randomise(SwinTransformerV2(**SMALL, window_size=window_size)).to(dtype)
    images = torch.randn(1, 3, *size, dtype=dtype)
    assert_same(model(images), torchvision_features(model, images), tolerance)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(("window_size", "pretrained_window_size"), [(8, 0), (12, 0), (8, 5), (5, 12)])
@pytest.mark.parametrize(("dtype", "tolerance"), PRECISIONS)
@torch.no_grad()
def test_features_equal_transformers(size, window_size, pretrained_window_size, dtype, tolerance):
    windows = {"window_size": window_size, "pretrained_window_size": pretrained_window_size}
    model = randomise(SwinTransformerV2(**SMALL, **windows, shift_covered=True)).to(dtype)
    images = torch.randn(2, 3, *size, dtype=dtype)
    assert_same(model(images), transformers_features(model, images, pretrained_window_size), tolerance)


@pytest.mark.parametrize(("dtype", "tolerance"), PRECISIONS)
@torch.no_grad()
def test_features_equal_timms_where_nothing_is_padded(dtype, tolerance):
    model = randomise(SwinTransformerV2(**SMALL)).to(dtype)
    images = torch.randn(1, 3, 256, 256, dtype=dtype)
    assert_same(model(images), timm_features(model, images), tolerance)


@torch.no_grad()
def test_a_published_window_of_16_at_256_pixels_is_one_of_8_in_the_last_stage():
    images = torch.randn(1, 3, 256, 256)
    by_stage = randomise(SwinTransformerV2(**SMALL, window_size=(16, 16, 16, 8)))
    expected = timm_features(by_stage, images)
    assert_same(by_stage(images), expected, 1e-5)
    everywhere = randomise(SwinTransformerV2(**SMALL, window_size=16))
    assert (everywhere(images)[3] - expected[3]).abs().max() > 0.1


@pytest.mark.parametrize("peer_features", [torchvision_features, timm_features])
@torch.no_grad()
def test_scales_are_limited_as_in_the_peers(peer_features):
    model = randomise(SwinTransformerV2(**SMALL | {"depths": (1, 1, 1, 1)})).double()  # no shift, so no masks
    for name, value in model.named_parameters():
        if name.endswith("logit_scale"):
            value.fill_(6.0)
    images = torch.randn(1, 3, 256, 256, dtype=torch.float64)
    features = model(images)
    assert_same(features, peer_features(model, images), 1e-10)
    for name, value in model.named_parameters():
        if name.endswith("logit_scale"):
            value.fill_(4.0)
    assert (model(images)[3] - features[3]).abs().max() > 1e-3


@pytest.mark.parametrize("peer_features", [torchvision_features, transformers_features])
def test_gradients_equal_the_peers(peer_features):
    shift_covered = peer_features is not torchvision_features
    model = randomise(SwinTransformerV2(**SMALL, shift_covered=shift_covered)).double()
    images = torch.randn(2, 3, 97, 131, dtype=torch.float64, requires_grad=True)
    gradients = []
    for features in (model(images), peer_features(model, images)):
        gradients.append(torch.autograd.grad(sum(level.square().mean() for level in features), images)[0])
    assert ((gradients[0] - gradients[1]).abs().max() / gradients[1].abs().max()).item() < 1e-10


def test_gradients_of_the_weights_equal_torchvisions():
    model = randomise(SwinTransformerV2(**SMALL)).double()
    peer = torchvision_peer(model, torch.float64)
    images = torch.randn(2, 3, 97, 131, dtype=torch.float64)
    for features in (model(images), torchvision_features(model, images, peer)):
        sum(level.square().mean() for level in features).backward()
    expected = {name: parameter.grad for name, parameter in peer.named_parameters()}
    ours = {name: parameter.grad for name, parameter in model.named_parameters() if parameter.grad is not None}
    for name, gradient in peer_names.torchvision_swin(ours).items():
        theirs = expected[name]
        if name.endswith("qkv.bias"):
            (gradient, theirs) = (part.view(3, -1)[::2] for part in (gradient, theirs))
        assert theirs.any(), name
        assert torch.allclose(gradient, theirs, rtol=1e-8, atol=1e-10 * theirs.abs().max().item()), name
