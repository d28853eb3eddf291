import pytest
import torch
from torchvision.models.swin_transformer import PatchMergingV2, SwinTransformerBlockV2
from torchvision.models.swin_transformer import SwinTransformer as TorchvisionSwin

from src.models.swin import SwinTransformer
from src.models.swin_v2 import SwinTransformerV2
from src.weights.layouts.buffers import buffers
from src.weights.layouts.recognise import kind_of
from tests.weights.layouts.reading import SMALL, assert_round_trip, assert_same, random_weights, read, scores

BUFFERS = ("relative_position_index", "relative_coords_table")


def peer(version, window):
    parts = {"block": SwinTransformerBlockV2, "downsample_layer": PatchMergingV2} if version == 2 else {}
    sizes = [4, 4], SMALL["embed_dim"], list(SMALL["depths"]), list(SMALL["num_heads"]), list(window)
    return random_weights(TorchvisionSwin(*sizes, num_classes=7, **parts))


def encoder(version, window):
    return (SwinTransformer if version == 1 else SwinTransformerV2)(**SMALL, window_size=window, shift_covered=False)


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("window", [(7, 7), (4, 6)])
@pytest.mark.parametrize("size", [(224, 224), (100, 132), (32, 36)])
@torch.no_grad()
def test_scores_equal_torchvisions(version, window, size):
    theirs = peer(version, window)
    found, state, left_over = read(theirs.state_dict())
    assert (found.layout.name, found.layout.version, found.prefix, left_over) == ("torchvision", version, "", [])
    assert kind_of(state) == "classifier"
    images = torch.randn(2, 3, *size)
    assert_same(scores(state, encoder(version, window), images), theirs(images))


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("window", [(7, 7), (4, 6)])
@torch.no_grad()
def test_torchvision_loads_what_is_written(version, window):
    theirs = peer(version, window)
    found, state, _ = read(theirs.state_dict())
    written, left_over = found.layout.to_theirs(state, "classifier")
    assert left_over == []
    fresh = peer(version, window)
    torch.nn.init.zeros_(fresh.head.weight)
    fresh.load_state_dict(written | buffers("torchvision", state, [window] * 4), strict=True)
    images = torch.randn(1, 3, 100, 132)
    assert torch.equal(fresh(images), theirs(images))


@pytest.mark.parametrize("version", [1, 2])
def test_a_round_trip_changes_nothing(version):
    state = peer(version, (7, 7)).state_dict()
    if version == 2:  # the keys' bias is not used, and zero where it is written
        for name in state:
            if name.endswith("qkv.bias"):
                third = len(state[name]) // 3
                state[name][third : 2 * third] = 0
    found, ours, _ = read(state)
    assert_round_trip(state, found, ours, BUFFERS)


@torch.no_grad()
def test_the_bias_of_keys_is_not_used():
    theirs = peer(2, (7, 7))
    images = torch.randn(1, 3, 64, 64)
    before = theirs(images)
    for name, value in theirs.named_parameters():
        if name.endswith("qkv.bias"):
            third = len(value) // 3
            value[third : 2 * third] += 100
    assert torch.equal(theirs(images), before)
    _, state, _ = read(theirs.state_dict())
    assert_same(scores(state, encoder(2, (7, 7)), images), before)


def test_a_version_without_biases_is_read():
    state = {name: value for name, value in peer(1, (7, 7)).state_dict().items() if not name.endswith("qkv.bias")}
    found, ours, left_over = read(state)
    assert left_over == []
    assert_round_trip(state, found, ours, BUFFERS)
