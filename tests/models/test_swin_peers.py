"""The encoder against torchvision's and transformers', from the same random weights."""

import pytest
import torch
import torch.nn.functional as F
from torchvision.models.swin_transformer import SwinTransformer as TorchvisionSwin

from src.models.swin import SWIN_SIZES, SwinTransformer
from tests.models import peer_names
from tests.models.random_weights import randomise

SMALL = {"embed_dim": 24, "depths": (2, 2, 2, 2), "num_heads": (1, 2, 3, 4)}
SIZES = [(224, 224), (97, 131), (37, 53), (33, 250), (8, 8)]
PRECISIONS = [(torch.float32, 1e-5), (torch.float64, 1e-10)]


def torchvision_features(model, images):
    peer = TorchvisionSwin(
        [4, 4],
        model.feature_specs[0].channels,
        [len(stage.blocks) for stage in model.layers],
        [stage.blocks[0].attn.num_heads for stage in model.layers],
        list(model.layers[0].blocks[0].attn.window),
    ).to(images.dtype)
    peer_names.load(peer, peer_names.torchvision_swin(model.state_dict()), r"^norm|^head|relative_position_index")
    x = F.pad(images, (0, -images.shape[3] % 4, 0, -images.shape[2] % 4))  # torchvision drops incomplete patches
    features = []
    for i, layer in enumerate(peer.eval().features):
        x = layer(x)
        if i % 2:
            features.append(model.get_submodule(f"norm{i // 2}")(x).permute(0, 3, 1, 2))
    return features


def transformers_features(model, images):
    transformers = pytest.importorskip("transformers")
    embed = model.absolute_pos_embed
    config = transformers.SwinConfig(
        image_size=224 if embed is None else 4 * embed.shape[2],
        embed_dim=model.feature_specs[0].channels,
        depths=[len(stage.blocks) for stage in model.layers],
        num_heads=[stage.blocks[0].attn.num_heads for stage in model.layers],
        window_size=model.layers[0].blocks[0].attn.window[0],
        use_absolute_embeddings=embed is not None,
        out_features=["stage1", "stage2", "stage3", "stage4"],
    )
    peer = transformers.models.swin.SwinBackbone(config).to(images.dtype).eval()
    peer_names.load(peer, peer_names.transformers_swin(model.state_dict()), r"^swin\.layernorm")
    return peer(images).feature_maps


def assert_same(features, expected, tolerance):
    for level, (ours, theirs) in enumerate(zip(features, expected, strict=True)):
        assert ours.shape == theirs.shape
        assert theirs.abs().max() > 1
        assert theirs.std() > 0.3
        difference = (ours - theirs).abs().max() / theirs.abs().max()
        assert difference < tolerance, f"level {level}: {difference}"


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("window_size", [7, (4, 6), (7, 3)])
@pytest.mark.parametrize(("dtype", "tolerance"), PRECISIONS)
@torch.no_grad()
def test_features_equal_torchvisions(size, window_size, dtype, tolerance):
    model = randomise(SwinTransformer(**SMALL, window_size=window_size, shift_covered=False)).to(dtype)
    images = torch.randn(1, 3, *size, dtype=dtype)
    assert_same(model(images), torchvision_features(model, images), tolerance)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("window_size", [7, 12])
@pytest.mark.parametrize(("dtype", "tolerance"), PRECISIONS)
@torch.no_grad()
def test_features_equal_transformers(size, window_size, dtype, tolerance):
    model = randomise(SwinTransformer(**SMALL, window_size=window_size)).to(dtype)
    images = torch.randn(2, 3, *size, dtype=dtype)
    assert_same(model(images), transformers_features(model, images), tolerance)


@torch.no_grad()
def test_features_with_absolute_embedding_equal_transformers():
    model = randomise(SwinTransformer(**SMALL, absolute_pos_embed=(24, 24)))
    images = torch.randn(1, 3, 96, 96)
    assert_same(model(images), transformers_features(model, images), 1e-5)


@pytest.mark.parametrize("size", [(512, 512), (500, 333)])
@torch.no_grad()
def test_features_of_the_tiny_model_equal_both_peers(size):
    images = torch.randn(1, 3, *size)
    for shift_covered, peer_features in ((True, transformers_features), (False, torchvision_features)):
        model = randomise(SwinTransformer(**SWIN_SIZES["tiny"]._asdict(), shift_covered=shift_covered))
        assert_same(model(images), peer_features(model, images), 1e-5)


def test_gradients_equal_torchvisions():
    model = randomise(SwinTransformer(**SMALL, shift_covered=False)).double()
    images = torch.randn(2, 3, 97, 131, dtype=torch.float64, requires_grad=True)
    gradients = []
    for features in (model(images), torchvision_features(model, images)):
        gradients.append(torch.autograd.grad(sum(level.square().mean() for level in features), images)[0])
    assert ((gradients[0] - gradients[1]).abs().max() / gradients[1].abs().max()).item() < 1e-10
