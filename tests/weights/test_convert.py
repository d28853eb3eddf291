"""Weights that are written are taken by the library that they are for, strictly, with the same outputs."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from src.classes import ClassList
from src.models import SwinTransformerV2
from src.preprocessing import Preprocessing
from src.weights.convert import TARGETS, convert
from src.weights.published import read_published
from tests.weights.files import SMALL, classifier_state, encoder, segmenter
from tests.weights.files import saved as saved_file

CLASSES = ClassList.from_names(["sky", "tree", "road"])
MARGIN = 1e-5
TIMM = {name: SMALL[name] for name in ("embed_dim", "depths", "num_heads")}


def classified(model: nn.Module, state: dict[str, Tensor], images: Tensor) -> Tensor:
    """What a classifier with these weights gives: the last map normed, averaged and scored.

    Classifiers have no shift where a window covers the map.
    """
    without = encoder(2 if isinstance(model, SwinTransformerV2) else 1, shift_covered=False)
    without.load_state_dict(model.state_dict())
    norm = without.norm3
    norm.weight.data, norm.bias.data = state["classifier.norm.weight"], state["classifier.norm.bias"]
    with torch.no_grad():
        pooled = without(images)[-1].mean((2, 3))
        return pooled @ state["classifier.head.weight"].T + state["classifier.head.bias"]


@pytest.fixture
def model():
    return segmenter(num_classes=3)


@pytest.fixture
def saved(model, tmp_path):
    return model.save_pretrained(tmp_path / "saved", CLASSES, Preprocessing())


@pytest.fixture(params=[1, 2])
def classifier(request, tmp_path):
    """A Swin of either version as a classifier, its weights and a file of them that tells the windows."""
    model = encoder(request.param)
    state = classifier_state(model, num_classes=5)
    path = tmp_path / ("swin.pth" if request.param == 1 else "swinv2_tiny_patch4_window4_128.pth")
    torch.save(state, path)
    return model, state, path


def agree(got: Tensor, wanted: Tensor) -> bool:
    return bool((got - wanted).abs().max() <= MARGIN * wanted.abs().max())


def test_transformers_takes_a_segmentor(model, saved, tmp_path):
    transformers = pytest.importorskip("transformers")
    done = convert(saved, tmp_path / "hub", "transformers")
    peer, loading = transformers.UperNetForSemanticSegmentation.from_pretrained(
        tmp_path / "hub", output_loading_info=True
    )
    assert not any(loading.values()), loading
    images = torch.randn(2, 3, 57, 83)
    with torch.no_grad():
        wanted = nn.functional.interpolate(model(images).logits, size=(57, 83), mode="bilinear", align_corners=False)
        assert agree(peer.eval()(images).logits, wanted)
    assert peer.config.id2label == {0: "sky", 1: "tree", 2: "road"}
    assert done.count == len(load_file(tmp_path / "hub" / "model.safetensors"))
    processor = transformers.AutoImageProcessor.from_pretrained(tmp_path / "hub")
    assert processor.image_mean == pytest.approx([0.485, 0.456, 0.406])
    assert type(transformers.AutoModelForSemanticSegmentation.from_pretrained(tmp_path / "hub")) is type(peer)


def test_transformers_takes_a_classifier(classifier, tmp_path):
    transformers = pytest.importorskip("transformers")
    model, state, path = classifier
    done = convert(path, tmp_path / "hub", "transformers")
    peer, loading = transformers.AutoModelForImageClassification.from_pretrained(
        tmp_path / "hub", output_loading_info=True
    )
    assert not any(loading.values()), loading
    assert done.not_held == ()
    images = torch.randn(2, 3, 128, 128)
    with torch.no_grad():
        assert agree(peer.eval()(images).logits, classified(model, state, images))


def test_timm_takes_a_classifier(classifier, tmp_path):
    timm = pytest.importorskip("timm")
    model, state, path = classifier
    done = convert(path, tmp_path / "timm.pth", "timm")
    version = "swinv2_tiny_window8_256" if isinstance(model, SwinTransformerV2) else "swin_tiny_patch4_window7_224"
    peer = timm.create_model(
        version, pretrained=False, num_classes=5, img_size=128, window_size=4, checkpoint_path=tmp_path / "timm.pth",
        **TIMM,
    ).eval()  # fmt: skip
    assert done.not_held == (("windows",) if isinstance(model, SwinTransformerV2) else ())
    images = torch.randn(2, 3, 128, 128)
    with torch.no_grad():
        assert agree(peer(images), classified(model, state, images))


def test_timm_takes_the_encoder_of_a_segmentor(model, saved, tmp_path):
    timm = pytest.importorskip("timm")
    done = convert(saved, tmp_path / "timm.safetensors", "timm")
    peer = timm.create_model(
        "swin_tiny_patch4_window7_224", pretrained=False, features_only=True, img_size=256, window_size=4, **TIMM
    ).eval()
    peer.load_state_dict(load_file(tmp_path / "timm.safetensors"), strict=True)
    images = torch.randn(1, 3, 256, 256, dtype=torch.float64)
    encoder, peer = model.encoder.double(), peer.double()
    with torch.no_grad():
        for stage, (level, ours) in enumerate(zip(peer(images), encoder(images), strict=True)):
            norm = getattr(encoder, f"norm{stage}")
            assert agree(norm(level).permute(0, 3, 1, 2), ours)
    told = str(done)
    assert "encoder, timm" in told
    assert "not held" in told
    assert all(part in told for part in ("decoder (", "auxiliary (", "encoder.norm0", "names of the classes"))


def test_torchvision_takes_a_classifier(classifier, tmp_path):
    from torchvision.models import swin_transformer as peers

    model, state, path = classifier
    done = convert(path, tmp_path / "vision.pth", "torchvision")
    second = isinstance(model, SwinTransformerV2)
    parts = {"block": peers.SwinTransformerBlockV2, "downsample_layer": peers.PatchMergingV2} if second else {}
    peer = peers.SwinTransformer(
        [4, 4], 8, [2, 2, 2, 2], [1, 2, 2, 4], [4, 4], num_classes=5, stochastic_depth_prob=0.0, **parts
    ).eval()
    peer.load_state_dict(torch.load(tmp_path / "vision.pth", weights_only=True), strict=True)
    assert done.not_held == ()
    images = torch.randn(2, 3, 128, 128)
    with torch.no_grad():
        assert agree(peer(images), classified(model, state, images))


@pytest.mark.parametrize("to", ["official", "mmseg"])
def test_a_segmentor_comes_back_bit_for_bit(model, saved, tmp_path, to):
    done = convert(saved, tmp_path / f"{to}.pth", to)
    held = torch.load(tmp_path / f"{to}.pth", weights_only=True)
    assert done.not_held == ("preprocessing",)
    names = held["meta"]["CLASSES"] if to == "official" else held["meta"]["dataset_meta"]["classes"]
    colours = held["meta"]["PALETTE"] if to == "official" else held["meta"]["dataset_meta"]["palette"]
    assert names == ["sky", "tree", "road"]
    assert colours == [list(colour) for colour in CLASSES.palette]
    assert any(name.endswith("relative_position_index") for name in held["state_dict"])
    assert done.count == len(held["state_dict"])
    back = read_published(tmp_path / f"{to}.pth")
    assert back.layout == to
    assert back.classes.names == CLASSES.names
    assert_same(back.state, model.state_dict())


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("end", [".pth", ".pt", ".bin", ".ckpt", ".safetensors"])
@pytest.mark.parametrize("to", ["official", "mmseg"])
def test_every_kind_of_file_and_of_number_comes_back(tmp_path, to, end, dtype):
    model = segmenter(num_classes=3).to(dtype)
    model.save_pretrained(tmp_path / "saved")
    convert(tmp_path / "saved", tmp_path / f"first{end}", to)
    convert(tmp_path / f"first{end}", tmp_path / "second.pth", "toolkit")
    assert_same(ours(tmp_path / "second.pth"), model.state_dict())


@pytest.mark.parametrize("to", [target for target in TARGETS if target not in ("official", "mmseg", "toolkit")])
def test_a_classifier_comes_back_bit_for_bit(classifier, tmp_path, to):
    _, state, path = classifier
    out = tmp_path / ("out" if to == "transformers" else f"{path.stem}_{to}.pth")
    convert(path, out, to)
    back = read_published(out)
    assert (back.layout, back.kind) == (to, "classifier")
    assert_same(back.state, state)


def test_a_segmentor_goes_through_every_layout_that_holds_it(model, saved, tmp_path):
    convert(saved, tmp_path / "a", "transformers")
    convert(tmp_path / "a", tmp_path / "b.pth", "mmseg")
    convert(tmp_path / "b.pth", tmp_path / "c.safetensors", "official")
    convert(tmp_path / "c.safetensors", tmp_path / "d.pth", "toolkit")
    assert_same(ours(tmp_path / "d.pth"), model.state_dict())


def ours(path: Path) -> dict[str, Tensor]:
    return torch.load(path, weights_only=True)["state_dict"]


def assert_same(got: dict[str, Tensor], wanted: dict[str, Tensor]) -> None:
    assert got.keys() == wanted.keys()
    for name, value in wanted.items():
        assert got[name].dtype == value.dtype, name
        assert torch.equal(got[name], value), name


def test_an_encoder_alone_is_a_backbone_for_transformers(tmp_path):
    transformers = pytest.importorskip("transformers")
    model = encoder(absolute_pos_embed=(9, 7))
    torch.save(model.state_dict(), tmp_path / "ours.pth")
    done = convert(tmp_path / "ours.pth", tmp_path / "hub", "transformers")
    peer, loading = transformers.SwinBackbone.from_pretrained(tmp_path / "hub", output_loading_info=True)
    assert not any(loading.values()), loading
    assert done.kind == "encoder"
    images = torch.randn(1, 3, 36, 28)
    with torch.no_grad():
        for theirs, ours in zip(peer.eval()(images).feature_maps, model(images), strict=True):
            assert agree(theirs, ours)


@pytest.mark.parametrize("version", [1, 2])
def test_an_encoder_without_output_norms_is_a_model_for_transformers(tmp_path, version):
    transformers = pytest.importorskip("transformers")
    state = {f"encoder.{n}": v for n, v in encoder(version).state_dict().items() if not n.startswith("norm")}
    path = tmp_path / ("swin.pth" if version == 1 else "swinv2_tiny_patch4_window4_128.pth")
    torch.save(state, path)
    convert(path, tmp_path / "hub", "transformers")
    assert not any(name.startswith("swin") for name in load_file(tmp_path / "hub" / "model.safetensors"))
    _, loading = transformers.AutoModel.from_pretrained(tmp_path / "hub", output_loading_info=True)
    assert not any(value for name, value in loading.items()), loading


@pytest.mark.parametrize("to", ["transformers", "official", "mmseg"])
def test_a_segmentor_without_an_auxiliary_head_is_written(tmp_path, to):
    model = segmenter(num_classes=3)
    model.auxiliary = None
    state = model.state_dict()
    torch.save(state, tmp_path / "ours.pth")
    out = tmp_path / ("out" if to == "transformers" else "out.pth")
    convert(tmp_path / "ours.pth", out, to)
    back = read_published(out).state
    assert_same({name: value for name, value in back.items() if not name.startswith("classifier.")}, state)
    if to == "transformers":
        transformers = pytest.importorskip("transformers")
        _, loading = transformers.UperNetForSemanticSegmentation.from_pretrained(out, output_loading_info=True)
        assert not any(loading.values()), loading


def test_the_image_size_makes_microsofts_masks(classifier, tmp_path):
    path = classifier[2]
    convert(path, tmp_path / "small.pth", "microsoft")
    convert(path, tmp_path / "large.pth", "microsoft", image_size=256)
    small, large = (torch.load(tmp_path / f"{n}.pth", weights_only=True)["model"] for n in ("small", "large"))
    assert large.keys() - small.keys() == {"layers.3.blocks.1.attn_mask"}
    assert small["layers.0.blocks.1.attn_mask"].shape == (64, 16, 16)
    assert large["layers.0.blocks.1.attn_mask"].shape == (256, 16, 16)
    with pytest.raises(ValueError, match="image_size must give maps"):
        convert(path, tmp_path / "other.pth", "microsoft", image_size=200)
    with pytest.raises(ValueError, match=r"to must be one of transformers, .* got keras"):
        convert(path, tmp_path / "other.pth", "keras")


@pytest.mark.parametrize("end", [".pth", ".safetensors"])
def test_files_of_our_names_tell_the_windows(tmp_path, end):
    path = saved_file(tmp_path / "swinv2_base_window12to16_192to256.pth", classifier_state(encoder(2)))
    convert(path, tmp_path / f"second{end}", "toolkit")
    windows = read_published(tmp_path / f"second{end}").windows
    assert windows == read_published(path).windows
    assert (windows.used[3], windows.pretrained[3]) == ((8, 8), (6, 6))
    convert(segmenter(window_size=(2, 3)).save_pretrained(tmp_path / "saved"), tmp_path / f"first{end}", "toolkit")
    assert read_published(tmp_path / f"first{end}").describe().windows == ((2, 3),) * 4


def test_classes_have_no_place_in_a_safe_file(saved, tmp_path):
    done = convert(saved, tmp_path / "out.safetensors", "official")
    assert done.not_held == ("names of the classes", "preprocessing")
    assert "meta" not in load_file(tmp_path / "out.safetensors")


def test_a_checkpoint_of_ours_says_what_it_leaves(model, tmp_path):
    state = model.state_dict() | {"classifier.norm.weight": torch.ones(64)}
    path = saved_file(tmp_path / "a.pth", {f"model.{name}": value for name, value in state.items()})
    for end in (".ckpt", ".pth", ".safetensors"):
        done = convert(path, tmp_path / f"out{end}", "toolkit", classes=CLASSES)
        assert done.not_held[0] == "classifier.norm.weight"
        assert done.not_held[1:] == (() if end == ".ckpt" else ("names of the classes",))
        assert_same(read_published(tmp_path / f"out{end}").state, model.state_dict())
