import re

import pytest
import torch

from src.models.swin import SwinTransformer
from src.models.swin_v2 import SwinTransformerV2
from src.weights.layouts.buffers import buffers
from src.weights.layouts.recognise import kind_of, layout_named, recognise
from tests.weights.layouts.reading import (
    SMALL,
    assert_round_trip,
    assert_same,
    encoder_with,
    random_weights,
    read,
    scores,
)

timm = pytest.importorskip("timm")

# nothing is padded at these sizes, which is where timm is right
NAMES = {1: ("swin_tiny_patch4_window7_224", 224), 2: ("swinv2_tiny_window8_256", 256)}


def peer(version, **options):
    return random_weights(timm.create_model(NAMES[version][0], **SMALL, **options))


def encoder(version):
    if version == 1:
        return SwinTransformer(**SMALL, shift_covered=False)
    return SwinTransformerV2(**SMALL, window_size=8, shift_covered=False)


@pytest.mark.parametrize("version", [1, 2])
@torch.no_grad()
def test_scores_equal_timms(version):
    theirs = peer(version, num_classes=7)
    found, state, left_over = read(theirs.state_dict())
    assert (found.layout.name, found.place, kind_of(state), left_over) == ("timm", "", "classifier", [])
    images = torch.randn(1, 3, NAMES[version][1], NAMES[version][1])
    assert_same(scores(state, encoder(version), images), theirs(images))


@pytest.mark.parametrize("version", [1, 2])
@torch.no_grad()
def test_features_equal_timms(version):
    theirs = peer(version, features_only=True)
    found, state, left_over = read(theirs.state_dict())
    assert (found.layout.name, found.place, kind_of(state), left_over) == ("timm", "", "encoder", [])
    images = torch.randn(1, 3, NAMES[version][1], NAMES[version][1])
    ours = encoder_with(state, encoder(version))
    for i, (level, expected) in enumerate(zip(ours(images), theirs(images), strict=True)):
        assert_same(level, ours.get_submodule(f"norm{i}")(expected).permute(0, 3, 1, 2))


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("options", [{"num_classes": 7}, {"features_only": True}])
@torch.no_grad()
def test_timm_loads_what_is_written(version, options):
    theirs = peer(version, **options)
    found, state, _ = read(theirs.state_dict())
    layout = layout_named("timm", kind_of(state), version)
    assert layout is found.layout
    assert_round_trip(theirs.state_dict(), found, state)
    assert buffers("timm", state, [(7, 7)] * 4) == {}
    fresh = timm.create_model(NAMES[version][0], **SMALL, **options).eval()
    fresh.load_state_dict(layout.to_theirs(state, kind_of(state))[0], strict=True)
    images = torch.randn(1, 3, NAMES[version][1], NAMES[version][1])
    expected, got = theirs(images), fresh(images)
    for one, other in zip(expected, got, strict=True):
        assert torch.equal(one, other)


def test_a_model_without_a_head_is_an_encoder():
    state = peer(1, num_classes=0).state_dict()
    found, ours, left_over = read(state)
    assert (kind_of(ours), left_over) == ("encoder", [])
    assert_round_trip(state, found, ours)


def test_merges_stand_at_the_start_of_a_stage():
    # the norms of layers 1, 2 and 3 are as wide as those of layers 0, 1 and 2 in the authors' names
    state = peer(1).state_dict()
    _, ours, _ = read(state)
    for stage in range(3):
        name = f"encoder.layers.{stage}.downsample.norm.weight"
        assert ours[name] is state[f"layers.{stage + 1}.downsample.norm.weight"]
        assert len(ours[name]) == 4 * 24 * 2**stage
    assert "encoder.layers.3.downsample.norm.weight" not in ours


def test_a_damaged_file_in_the_authors_names_is_not_taken_for_timms():
    names = [re.sub(r"layers\.(\d)\.downsample", _one_earlier, name) for name in peer(1).state_dict()]
    assert recognise(names).layout.name == "microsoft"
    names.remove("layers.0.downsample.reduction.weight")
    with pytest.raises(ValueError, match="known layout"):
        recognise(names)


def _one_earlier(match):
    return f"layers.{int(match[1]) - 1}.downsample"


def test_output_norms_have_no_place_and_are_told():
    ours = {f"encoder.{name}": value for name, value in encoder(1).state_dict().items()}
    written, left_over = layout_named("timm", "encoder", 1).to_theirs(ours, "encoder")
    assert left_over == [f"encoder.norm{i}.{end}" for i in range(4) for end in ("weight", "bias")]
    timm.create_model(NAMES[1][0], **SMALL, features_only=True).load_state_dict(written, strict=True)
