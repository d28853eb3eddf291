"""What transformers is given beside weights, and what of them it cannot hold."""

import functools
import json

import pytest
import torch
from safetensors.torch import load_file
from torch import nn

from src.classes import ClassList
from src.models import FCNHead, Segmenter, UPerNetDecoder
from src.preprocessing import Preprocessing
from src.weights.convert import convert
from src.weights.published import read_published
from tests.models.random_weights import randomise
from tests.weights.files import SMALL, encoder, saved, segmenter

CLASSES = ClassList.from_names(["sky", "tree", "road"])


def built(tmp_path, auxiliary=None, **settings) -> Segmenter:
    """A segmenter with a head of these options, as a file."""
    heads = {"decoder": functools.partial(UPerNetDecoder, channels=8)}
    if auxiliary is not None:
        heads["auxiliary"] = functools.partial(FCNHead, **auxiliary)
    model = randomise(Segmenter(encoder(**settings), **heads, num_classes=3))
    saved(tmp_path / "ours.pth", model.state_dict())
    return model


def taken(tmp_path) -> nn.Module:
    """What transformers makes of a folder, in which nothing may be missing or left over."""
    transformers = pytest.importorskip("transformers")
    peer, loading = transformers.UperNetForSemanticSegmentation.from_pretrained(
        tmp_path / "hub", output_loading_info=True
    )
    assert not any(loading.values()), loading
    return peer.eval()


def test_the_sources_own_type_of_number_is_what_its_file_says(tmp_path):
    convert(
        segmenter(num_classes=3).save_pretrained(tmp_path / "saved", CLASSES, Preprocessing()),
        tmp_path / "hub",
        "transformers",
    )
    tensors = load_file(tmp_path / "hub" / "model.safetensors")
    counts = [name for name in tensors if name.endswith("num_batches_tracked")]
    assert counts
    assert {tensors[name].dtype for name in counts} == {torch.int64}
    assert {tensors[name].dtype for name in tensors.keys() - set(counts)} == {torch.float32}
    assert {path.name for path in (tmp_path / "hub").iterdir()} == {
        "config.json", "model.safetensors", "preprocessor_config.json",
    }  # fmt: skip
    config = json.loads((tmp_path / "hub" / "config.json").read_text())
    assert config["architectures"] == ["UperNetForSemanticSegmentation"]


@pytest.mark.parametrize(
    ("auxiliary", "settings"),
    [
        ({"level": 1, "channels": 8}, {}),
        ({"level": 3, "channels": 8}, {}),
        ({"level": 1, "num_convs": 0}, {}),
        ({"level": 1, "channels": 8}, {"depths": (1, 1), "num_heads": (1, 2)}),
        ({"level": 0, "channels": 8}, {"depths": (1,), "num_heads": (1,)}),
    ],
    ids=str,
)
def test_an_auxiliary_head_that_transformers_would_give_another_level_is_left_out(tmp_path, auxiliary, settings):
    model = built(tmp_path, auxiliary, **settings)
    done = convert(tmp_path / "ours.pth", tmp_path / "hub", "transformers", classes=CLASSES)
    assert set(done.not_held) == {name for name in model.state_dict() if name.startswith("auxiliary.")}
    assert not json.loads((tmp_path / "hub" / "config.json").read_text())["use_auxiliary_head"]
    images = torch.randn(1, 3, 64, 64)
    with torch.no_grad():
        logits = nn.functional.interpolate(model(images).logits, size=(64, 64), mode="bilinear", align_corners=False)
        torch.testing.assert_close(taken(tmp_path)(images).logits, logits, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize(
    "auxiliary", [{"channels": 8, "num_convs": 0}, {"channels": 8, "num_convs": 2}, {"channels": 4}, None], ids=str
)
def test_an_auxiliary_head_on_the_third_level_is_held(tmp_path, auxiliary):
    model = built(tmp_path, auxiliary)
    done = convert(tmp_path / "ours.pth", tmp_path / "hub", "transformers", classes=CLASSES)
    assert done.not_held == ()
    held = taken(tmp_path).state_dict()
    if auxiliary is not None:
        assert torch.equal(held["auxiliary_head.classifier.weight"], model.auxiliary.conv_seg.weight)


def test_a_ratio_of_the_mlps_that_is_no_whole_number_is_held(tmp_path):
    built(tmp_path, mlp_ratio=2.7, **SMALL | {"embed_dim": 16})
    convert(tmp_path / "ours.pth", tmp_path / "hub", "transformers")
    assert json.loads((tmp_path / "hub" / "config.json").read_text())["backbone_config"]["mlp_ratio"] == 2.7
    taken(tmp_path)


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32])
def test_the_norm_that_is_added_is_of_the_weights_type_and_is_left_out_again(tmp_path, dtype):
    model = segmenter(num_classes=3).to(dtype)
    saved(tmp_path / "ours.pth", model.state_dict())
    done = convert(tmp_path / "ours.pth", tmp_path / "hub", "transformers")
    held = load_file(tmp_path / "hub" / "model.safetensors")
    added = {name: value for name, value in held.items() if name.startswith("backbone.swin.")}
    assert {value.dtype for value in added.values()} == {dtype}
    assert [value.tolist() for _, value in sorted(added.items())] == [[0.0] * 64, [1.0] * 64]
    assert "transformers has a norm after the last stage, which was added as it begins" in done.notes
    back = convert(tmp_path / "hub", tmp_path / "back.pth", "toolkit")
    assert set(back.not_held) == {"classifier.norm.weight", "classifier.norm.bias"}
    assert read_published(tmp_path / "back.pth").state.keys() == model.state_dict().keys()


@pytest.mark.parametrize("kind", ["segmentor", "encoder"])
def test_a_norm_that_is_there_is_kept(tmp_path, kind):
    model = segmenter(num_classes=3)
    norm = {"classifier.norm.weight": torch.rand(64), "classifier.norm.bias": torch.rand(64)}
    state = model.state_dict()
    if kind == "encoder":
        state = {name: value for name, value in state.items() if name.startswith("encoder.")}
    saved(tmp_path / "ours.pth", {**state, **norm})
    done = convert(tmp_path / "ours.pth", tmp_path / "hub", "transformers")
    assert done.kind == kind
    back = read_published(tmp_path / "hub").state
    assert all(torch.equal(back[name], value) for name, value in norm.items())
    assert not any("norm after the last stage" in note for note in done.notes)


def test_images_are_of_the_published_size_or_the_one_that_is_told(tmp_path):
    saved(tmp_path / "ours.pth", segmenter(num_classes=3).state_dict())
    for image_size, wanted in ((None, 512), (640, 640)):
        convert(tmp_path / "ours.pth", tmp_path / "hub", "transformers", image_size=image_size, overwrite=True)
        processor = json.loads((tmp_path / "hub" / "preprocessor_config.json").read_text())
        assert processor["size"] == {"height": wanted, "width": wanted}
