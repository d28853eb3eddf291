import pytest
import torch

from src.classes import ClassList
from src.inference.checkpoint import (
    FORMAT_VERSION,
    SECTION,
    checkpoint_section,
    load_checkpoint,
    read_checkpoint,
    read_section,
)
from src.preprocessing import Preprocessing


@pytest.fixture
def model(tiny_segmenter):
    return tiny_segmenter(num_classes=3).eval()


@pytest.fixture
def checkpoint(model):
    section = checkpoint_section(
        model,
        ClassList.from_names(["sky", "tree", "road"]),
        Preprocessing(resize=(200, 50), mean=(1, 2, 3), std=(4, 5, 6)),
    )
    weights = {f"model.{name}": value for name, value in model.state_dict().items()}
    return {SECTION: section, "state_dict": weights | {"loss.weight": torch.ones(1)}, "global_step": 3}


@pytest.fixture
def saved(checkpoint, tmp_path):
    def save(**changes):
        torch.save(checkpoint | changes, tmp_path / "some.ckpt")
        return tmp_path / "some.ckpt"

    return save


def test_what_was_written_is_read(saved, model):
    contents = read_checkpoint(saved())
    assert contents.classes.names == ("sky", "tree", "road")
    assert contents.preprocessing == Preprocessing(resize=(200, 50), mean=(1, 2, 3), std=(4, 5, 6))
    images = torch.randn(1, 3, 33, 47)
    assert torch.equal(contents.build()(images).logits, model(images).logits)


def test_the_section_says_its_format(saved):
    assert read_section(saved())["format_version"] == FORMAT_VERSION


def test_names_of_a_compiled_model_are_those_of_the_plain_one(checkpoint, saved, model):
    compiled = {
        name.replace("model.", "model._orig_mod.", 1): value for name, value in checkpoint["state_dict"].items()
    }
    assert set(read_checkpoint(saved(state_dict=compiled)).state_dict) == set(model.state_dict())


def test_missing_file_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"got .*none\.ckpt, which does not exist; training writes"):
        read_checkpoint(tmp_path / "none.ckpt")


@pytest.mark.parametrize("share", [0.0, 0.5, 0.99])
def test_cut_file_is_named(saved, share):
    path = saved()
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * share)])
    with pytest.raises(ValueError, match=r"some\.ckpt cannot be read as a checkpoint"):
        read_checkpoint(path)


@pytest.mark.parametrize("content", [b"hello", b"PK\x03\x04 no archive", b"\x80\x02."])
def test_a_file_that_is_no_checkpoint_is_named(tmp_path, content):
    (tmp_path / "some.ckpt").write_bytes(content)
    with pytest.raises(ValueError, match=r"some\.ckpt cannot be read as a checkpoint"):
        read_checkpoint(tmp_path / "some.ckpt")


class Planted:
    def __reduce__(self):
        return pytest.fail, ("code in the file ran",)


def test_code_in_a_file_is_not_run(saved):
    with pytest.raises(ValueError, match="cannot be read as a checkpoint"):
        read_checkpoint(saved(extra=Planted()))


def test_checkpoint_of_another_program_is_refused(tmp_path, model):
    torch.save({"state_dict": model.state_dict()}, tmp_path / "other.ckpt")
    with pytest.raises(ValueError, match=r"other\.ckpt must be a checkpoint of this toolkit"):
        read_checkpoint(tmp_path / "other.ckpt")


def test_newer_format_is_refused(checkpoint, saved):
    newer = checkpoint[SECTION] | {"format_version": FORMAT_VERSION + 1}
    with pytest.raises(ValueError, match=f"up to {FORMAT_VERSION}, got {FORMAT_VERSION + 1}; update the toolkit"):
        read_checkpoint(saved(**{SECTION: newer}))


def test_section_without_its_parts_is_refused(checkpoint, saved):
    with pytest.raises(ValueError, match="is damaged: it lacks classes, preprocessing"):
        read_checkpoint(saved(**{SECTION: {"format_version": 1, "model": checkpoint[SECTION]["model"]}}))


def test_part_from_a_missing_package_is_named(checkpoint, saved):
    settings = checkpoint[SECTION]["model"]
    settings["init_args"]["encoder"]["class_path"] = "no_such_package.Encoder"
    with pytest.raises(ImportError, match=r"no_such_package\.Encoder is needed to build this model"):
        read_checkpoint(saved()).build()


def test_a_loaded_checkpoint_is_whole_and_has_the_names_of_the_plain_model(checkpoint, saved):
    names = set(checkpoint["state_dict"])
    compiled = {f"_orig_mod.{name}": value for name, value in checkpoint["state_dict"].items()}
    loaded = load_checkpoint(saved(state_dict=compiled))
    assert set(loaded["state_dict"]) == names
    assert loaded[SECTION] == read_section(saved())
    assert loaded["global_step"] == 3


def test_tensors_go_where_they_are_asked_for(saved):
    weights = load_checkpoint(saved(), map_location="meta")["state_dict"].values()
    assert {value.device.type for value in weights} == {"meta"}


def test_weights_are_missed(checkpoint, tmp_path):
    torch.save({SECTION: checkpoint[SECTION]}, tmp_path / "some.ckpt")
    with pytest.raises(ValueError, match="is damaged: it lacks state_dict"):
        load_checkpoint(tmp_path / "some.ckpt")


def test_a_folder_is_named(tmp_path):
    with pytest.raises(ValueError, match=r"ckpt_path must be a checkpoint file, got .*, which is a folder; give one"):
        load_checkpoint(tmp_path)
