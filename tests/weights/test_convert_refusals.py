"""What a target cannot hold is refused or told, never lost without a word."""

import functools
import json

import pytest
import torch
from safetensors.torch import save_file

from src.classes import ClassList
from src.models import FCNHead, Segmenter, UPerNetDecoder
from src.preprocessing import Preprocessing
from src.weights.convert import convert
from src.weights.published import read_published
from tests.weights.files import encoder, segmenter

CLASSES = ClassList.from_names(["sky", "tree", "road"])


@pytest.fixture
def saved(tmp_path):
    return segmenter(num_classes=3).save_pretrained(tmp_path / "saved", CLASSES, Preprocessing())


def test_a_segmentor_of_version_2_gives_its_encoder_alone(tmp_path):
    segmenter(num_classes=3, version=2).save_pretrained(tmp_path / "saved", CLASSES)
    with pytest.raises(ValueError, match="layout must hold the weights that are written, got 'mmseg'"):
        convert(tmp_path / "saved", tmp_path / "out.pth", "mmseg")
    torch.save(segmenter(num_classes=3, version=2).state_dict(), tmp_path / "swinv2_window4_128.pth")
    done = convert(tmp_path / "swinv2_window4_128.pth", tmp_path / "vision.pth", "torchvision")
    assert done.kind == "encoder"
    assert "decoder (" in str(done)


@pytest.mark.parametrize("to", ["official", "mmseg"])
def test_counts_of_batches_are_added_and_a_classifiers_norm_is_left(tmp_path, to):
    state = segmenter(num_classes=3).state_dict()
    lacking = {name: value for name, value in state.items() if not name.endswith("num_batches_tracked")}
    torch.save(lacking | {"classifier.norm.weight": torch.ones(64)}, tmp_path / "ours.pth")
    done = convert(tmp_path / "ours.pth", tmp_path / "out.pth", to)
    assert done.not_held == ("classifier.norm.weight",)
    assert read_published(tmp_path / "out.pth").state.keys() == state.keys()


def test_windows_that_nothing_tells_are_asked_for(tmp_path):
    torch.save(encoder(2).state_dict(), tmp_path / "ours.pth")
    for to, out in (("torchvision", "out.pth"), ("transformers", "out")):
        with pytest.raises(ValueError, match=r"window.* must be known"):
            convert(tmp_path / "ours.pth", tmp_path / out, to)
        assert not (tmp_path / out).exists()


@pytest.mark.parametrize("to", ["transformers", "official", "mmseg", "microsoft"])
def test_windows_that_are_not_square_are_refused(tmp_path, to):
    segmenter(num_classes=3, window_size=(2, 3)).save_pretrained(tmp_path / "saved", CLASSES)
    with pytest.raises(ValueError, match=r"must be square|of no square window"):
        convert(tmp_path / "saved", tmp_path / ("out" if to == "transformers" else "out.pth"), to)


def test_a_position_embedding_that_the_target_has_no_place_for_is_not_lost(tmp_path):
    torch.save(encoder(absolute_pos_embed=(4, 4)).state_dict(), tmp_path / "ours.pth")
    with pytest.raises(ValueError, match=r"no more than timm can hold, got encoder\.absolute_pos_embed"):
        convert(tmp_path / "ours.pth", tmp_path / "out.pth", "timm")


@pytest.mark.parametrize("to", ["transformers", "official", "mmseg"])
def test_another_decoder_is_refused_where_upernet_is_meant(tmp_path, to):
    heads = {"decoder": functools.partial(UPerNetDecoder, channels=8, norm="group")}
    for decoder in (heads, {"decoder": functools.partial(FCNHead, channels=8)}):
        folder = Segmenter(encoder(), **decoder, num_classes=3).save_pretrained(tmp_path / "saved")
        with pytest.raises(ValueError, match="must hold UPerNet with BatchNorm to be written as"):
            convert(folder, tmp_path / ("out" if to == "transformers" else "out.pth"), to)
        done = convert(folder, tmp_path / "timm.pth", "timm", overwrite=True)
        assert done.kind == "encoder"


def test_another_encoder_than_swin_stays_with_us(tmp_path):
    state = {"encoder.stem.weight": torch.ones(2), "decoder.conv_seg.weight": torch.ones(3, 8, 1, 1)}
    torch.save(state, tmp_path / "ours.pth")
    with pytest.raises(ValueError, match="must hold a Swin to be written as mmseg, got another encoder"):
        convert(tmp_path / "ours.pth", tmp_path / "out.pth", "mmseg")
    convert(tmp_path / "ours.pth", tmp_path / "out.pth", "toolkit")
    kept = torch.load(tmp_path / "out.pth", weights_only=True)
    assert all(torch.equal(kept[name], value) for name, value in state.items())
    assert kept.keys() == state.keys()


def test_what_the_target_computes_otherwise_is_told(tmp_path):
    model = segmenter(num_classes=3, padded_keys="mask", shift_covered=False)
    model.save_pretrained(tmp_path / "saved")
    told = str(convert(tmp_path / "saved", tmp_path / "out.pth", "official"))
    assert "note: the model keeps padding out of attention (padded_keys: mask), official does not" in told
    assert "note: the model has no shift where a window covers the map (shift_covered: false), official has" in told
    told = str(convert(tmp_path / "saved", tmp_path / "vision.pth", "torchvision"))
    assert "shift" not in told


def test_classes_that_are_given_win_and_must_be_as_many(saved, tmp_path):
    classes = ClassList.from_names("abc")
    convert(saved, tmp_path / "out.pth", "official", classes=classes)
    assert read_published(tmp_path / "out.pth").classes.names == ("a", "b", "c")
    with pytest.raises(ValueError, match=r"--classes must name each of the 3 outputs of .*, got 2 names"):
        convert(saved, tmp_path / "other.pth", "official", classes=ClassList.from_names("ab"))


@pytest.mark.parametrize("end", [".safetensors", ".pth"])
def test_what_is_read_is_never_replaced(tmp_path, end):
    folder = tmp_path / "parts"
    folder.mkdir()
    state = encoder().state_dict()
    names = sorted(state)
    parts = {f"{number}.safetensors": names[number::2] for number in range(2)}
    for part, held in parts.items():
        save_file({name: state[name] for name in held}, folder / part)
    index = folder / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": {name: part for part, held in parts.items() for name in held}}))
    before = {path: path.read_bytes() for path in folder.iterdir()}
    for source in (folder, index):
        for part in parts:
            with pytest.raises(ValueError, match="OUT must be another place than IN"):
                convert(source, folder / part, "toolkit", overwrite=True)
    assert {path: path.read_bytes() for path in folder.iterdir()} == before
    convert(index, folder / f"new{end}", "toolkit")
    convert(index, folder / f"new{end}", "toolkit", overwrite=True)
    assert read_published(folder / f"new{end}").state.keys() == {f"encoder.{name}" for name in state}


@pytest.mark.parametrize(
    ("keys", "value"),
    [
        (("model", "init_args"), None),
        (("model", "init_args", "encoder", "init_args"), None),
        (("preprocessing",), -1),
        (("scores",), 5),
        (("classes", "names"), [1]),
    ],
)
@pytest.mark.parametrize("out", ["out.ckpt", "out.pth", "timm.pth"])
def test_a_damaged_folder_of_ours_is_told(saved, tmp_path, keys, value, out):
    config = json.loads((saved / "config.json").read_text())
    place = config
    for key in keys[:-1]:
        place = place[key]
    place[keys[-1]] = value
    (saved / "config.json").write_text(json.dumps(config))
    with pytest.raises(ValueError, match="saved"):
        convert(saved, tmp_path / out, "timm" if out == "timm.pth" else "toolkit")
    assert not (tmp_path / out).exists()


def test_a_model_far_larger_than_its_weights_is_not_built(saved, tmp_path):
    config = json.loads((saved / "config.json").read_text())
    config["model"]["init_args"]["encoder"]["init_args"]["depths"] = [2, 2, 1_000_000, 2]
    (saved / "config.json").write_text(json.dumps(config))
    with pytest.raises(ValueError, match="is far larger than its weights"):
        convert(saved, tmp_path / "out.ckpt", "toolkit")
