"""Published weights under our names, from every kind of source."""

import functools
from dataclasses import replace

import pytest
import torch
from torch import nn

from src.classes import ClassList
from src.models import FCNHead, Segmenter, SmpEncoder
from src.models.section import SECTION, checkpoint_section
from src.preprocessing import Preprocessing
from src.weights import load_weights
from src.weights.named import NAMED
from src.weights.published import fetched, read_published
from tests.file_server import FileServer
from tests.weights.files import classifier_state, encoder, saved, segmenter, theirs


class Mean(nn.Module):
    """A decoder of somebody's own, its names like no other's."""

    stride = 4

    def __init__(self, features, num_classes):
        super().__init__()
        self.score = nn.Conv2d(features[0].channels, num_classes, 1)

    def forward(self, features):
        return self.score(features[0])


def checkpoint_of(model, names) -> dict:
    """What training writes, as far as weights are concerned."""
    section = checkpoint_section(model, ClassList.from_names(names), Preprocessing())
    weights = {f"model.{name}": value for name, value in model.state_dict().items()}
    return {SECTION: section, "state_dict": weights | {"confusion.confmat": torch.zeros(2, 2)}}


def test_what_is_in_a_file_is_told(tmp_path):
    state = theirs(segmenter(num_classes=2).state_dict(), "official")
    path = saved(tmp_path / "a.pth", {"state_dict": state | {"ema_x": torch.zeros(1)}, "meta": {"CLASSES": ["a", "b"]}})
    published = read_published(path)
    assert (published.source, published.layout, published.kind, published.version) == (
        str(path),
        "official",
        "segmentor",
        1,
    )
    assert published.classes.names == ("a", "b")
    assert published.describe().depths == (2, 2, 2, 2)
    assert published.facts["meta"] == {"CLASSES": ["a", "b"]}


def test_a_classifier_has_no_classes_of_a_segmentor(tmp_path):
    state = theirs(classifier_state(encoder(), 2), "microsoft")
    path = saved(tmp_path / "a.pth", {"model": state, "meta": {"CLASSES": ["cat", "dog"]}})
    published = read_published(path)
    assert published.kind == "classifier"
    assert published.classes is None


def test_weights_over_the_network_are_fetched_once_and_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(torch.hub, "get_dir", lambda: str(tmp_path / "hub"))
    model = encoder(seed=1)
    path = saved(tmp_path / "a.pth", {"model": theirs(classifier_state(model), "microsoft")})
    server = FileServer(path.read_bytes())
    try:
        report = load_weights(encoder(), server.url)
        assert report.coverage == 1
        requests = len(server.requests)
        assert load_weights(encoder(), server.url).coverage == 1
        assert len(server.requests) == requests
    finally:
        server.stop()
    assert load_weights(encoder(), server.url).coverage == 1


def test_a_name_stands_for_its_source(tmp_path, monkeypatch):
    path = saved(tmp_path / "a.pth", {"model": theirs(classifier_state(encoder()), "microsoft")})
    row = replace(NAMED["swin_tiny_imagenet1k"], source=str(path))
    monkeypatch.setattr("src.weights.published.find_named", {"swin_tiny_imagenet1k": row}.get)
    published = read_published("swin_tiny_imagenet1k")
    assert published.source == "swin_tiny_imagenet1k"
    assert fetched("swin_tiny_imagenet1k") == path


def test_a_name_of_ade20k_knows_its_classes(tmp_path, monkeypatch):
    path = saved(tmp_path / "a.pth", theirs(segmenter(num_classes=150).state_dict(), "official"))
    assert read_published(path).classes is None
    row = replace(NAMED["upernet_swin_tiny_ade20k"], source=str(path))
    monkeypatch.setattr("src.weights.published.find_named", {"upernet_swin_tiny_ade20k": row}.get)
    assert read_published("upernet_swin_tiny_ade20k").classes == ClassList.ade20k()


@pytest.mark.parametrize(
    ("key", "value"), [("decode_head.conv_seg.weight", torch.tensor(1.0)), ("x", torch.tensor(1.0))]
)
def test_a_shape_that_no_classifier_has_is_damage(tmp_path, key, value):
    state = theirs(segmenter().state_dict(), "official") | {key: value}
    path = saved(tmp_path / "a.pth", state)
    if key == "x":
        assert read_published(path).left_over == ("x",)
        return
    with pytest.raises(ValueError, match=r"a\.pth must hold convolutions .* decoder\.conv_seg\.weight"):
        read_published(path)


def test_weights_without_values_are_damage(tmp_path):
    state = theirs(classifier_state(encoder()), "timm") | {"patch_embed.proj.bias": torch.zeros(0)}
    with pytest.raises(
        ValueError, match=r"must hold weights with values, got none in encoder\.patch_embed\.proj\.bias"
    ):
        read_published(saved(tmp_path / "a.pth", state))


@pytest.mark.parametrize("shape", [(), (3,), (2, 3)])
def test_an_embedding_of_another_shape_is_refused(tmp_path, shape):
    state = encoder(absolute_pos_embed=(2, 2)).state_dict() | {"absolute_pos_embed": torch.ones(shape)}
    with pytest.raises(ValueError, match="absolute_pos_embed"):
        load_weights(encoder(absolute_pos_embed=(2, 2)), saved(tmp_path / "a.pth", state))


def test_a_name_that_is_mistyped_is_told_with_the_nearest():
    with pytest.raises(FileNotFoundError, match=r"got swin_tiny_imagnet1k.*did you mean swin_tiny_imagenet1k\?"):
        read_published("swin_tiny_imagnet1k")
    with pytest.raises(FileNotFoundError, match="convert_weights --list` names published ones"):
        read_published("zzz")


def test_a_place_can_be_chosen_where_a_file_holds_several(tmp_path):
    first, second = (theirs(classifier_state(encoder(seed=seed)), "microsoft") for seed in (1, 2))
    both = {f"student.{name}": v for name, v in first.items()} | {f"teacher.{name}": v for name, v in second.items()}
    path = saved(tmp_path / "a.pth", both)
    with pytest.raises(ValueError, match=r"a\.pth: the weights must be of one model, got several"):
        read_published(path)
    chosen = read_published(path, prefix="teacher").state["encoder.patch_embed.proj.weight"]
    assert torch.equal(chosen, second["patch_embed.proj.weight"])


@pytest.mark.parametrize("windows", [(3, 5), (4, 4, 2, (1, 2))])
@pytest.mark.parametrize("version", [1, 2])
def test_a_checkpoint_of_ours_tells_its_windows(tmp_path, windows, version):
    model = segmenter(num_classes=2, version=version, window_size=windows)
    published = read_published(saved(tmp_path / "a.ckpt", checkpoint_of(model, ["a", "b"])))
    assert (published.layout, published.kind) == ("toolkit", "segmentor")
    assert published.windows.used == tuple(stage.blocks[0].attn.window for stage in model.encoder.layers)
    assert published.describe().settings["init_args"]["window_size"] == (
        [3, 5] if windows == (3, 5) else [4, 4, 2, [1, 2]]
    )
    again = segmenter(num_classes=2, version=version, window_size=windows, seed=5)
    report = load_weights(again, tmp_path / "a.ckpt", classes=ClassList.from_names(["a", "b"]))
    assert (report.coverage, report.adapted, report.new) == (1, (), ())


@pytest.mark.parametrize("name", ["mit_b0", "resnet18"])
def test_a_checkpoint_of_ours_with_parts_of_others_is_ours(tmp_path, name):
    make = functools.partial(Segmenter, decoder=Mean, auxiliary=FCNHead, num_classes=2)
    model = make(SmpEncoder(name))
    path = saved(tmp_path / "a.ckpt", checkpoint_of(model, ["a", "b"]))
    again = make(SmpEncoder(name))
    report = load_weights(again, path, classes=ClassList.from_names(["a", "b"]))
    assert report.layout.startswith("toolkit (segmentor")
    assert (report.coverage, report.new) == (1, ())
    assert all(torch.equal(value, model.state_dict()[key]) for key, value in again.state_dict().items())
