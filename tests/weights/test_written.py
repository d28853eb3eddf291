import pytest
import torch
from safetensors.torch import load_file

from src.weights.written import check_destination, write_file, write_folder


def check(path, source="swin_tiny_imagenet1k", is_folder=False, overwrite=False):
    check_destination(path, str(source), is_folder, overwrite)


def test_a_new_place_is_fine(tmp_path):
    check(tmp_path / "a.pth")
    check(tmp_path / "new" / "folder", is_folder=True)
    (tmp_path / "empty").mkdir()
    check(tmp_path / "empty", is_folder=True)


@pytest.mark.parametrize("name", ["a.pth", "a.safetensors"])
def test_what_is_there_is_replaced_only_when_asked(tmp_path, name):
    (tmp_path / name).write_text("old")
    with pytest.raises(ValueError, match=r"OUT must be new, got .* give --overwrite"):
        check(tmp_path / name)
    check(tmp_path / name, overwrite=True)


def test_the_source_is_never_replaced(tmp_path):
    (tmp_path / "folder").mkdir()
    path = tmp_path / "folder" / "a.pth"
    path.write_text("weights")
    (tmp_path / "link.pth").symlink_to(path)
    for out in (path, tmp_path / "link.pth", tmp_path / "folder" / ".." / "folder" / "a.pth"):
        with pytest.raises(ValueError, match=r"OUT must be another place than IN"):
            check(out, path, overwrite=True)
    for out in (tmp_path / "folder", tmp_path):
        with pytest.raises(ValueError, match=r"OUT must be another place than IN"):
            check(out, path, is_folder=True, overwrite=True)


def test_a_folder_with_anything_else_is_not_replaced(tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "model.safetensors").touch()
    (folder / "config.json").touch()
    check(folder, is_folder=True, overwrite=True)
    (folder / "photo.jpg").touch()
    with pytest.raises(ValueError, match=r"must be a folder of weights alone to be replaced, got .* with photo\.jpg"):
        check(folder, is_folder=True, overwrite=True)


def test_a_file_for_a_folder_and_a_folder_for_a_file_are_told(tmp_path):
    (tmp_path / "a.pth").mkdir()
    (tmp_path / "b").write_text("x")
    with pytest.raises(ValueError, match=r"OUT must be a file, got .*, which is a folder"):
        check(tmp_path / "a.pth", overwrite=True)
    with pytest.raises(ValueError, match=r"OUT must be a folder, got .*, which is a file"):
        check(tmp_path / "b", is_folder=True, overwrite=True)
    with pytest.raises(
        ValueError, match=r"OUT must be a folder for --to transformers, got .*; leave out \.safetensors"
    ):
        check(tmp_path / "c.safetensors", is_folder=True)


@pytest.mark.parametrize("name", ["a", "a.onnx", "a.pth.tar", "folder.v2"])
def test_an_end_that_is_not_known_is_told(tmp_path, name):
    with pytest.raises(ValueError, match=r"OUT must end in \.pth, \.pt, \.bin, \.ckpt, \.safetensors, got"):
        check(tmp_path / name)


@pytest.mark.parametrize("end", [".pth", ".pt", ".bin", ".ckpt"])
def test_a_slice_does_not_take_the_whole_along(tmp_path, end):
    whole = torch.zeros(1_000_000)
    path = tmp_path / f"a{end}"
    write_file(path, {"part": whole[:10]}, lambda tensors: {"state_dict": tensors})
    assert path.stat().st_size < 10_000
    assert torch.load(path, weights_only=True)["state_dict"]["part"].shape == (10,)


def test_a_safe_file_is_flat(tmp_path):
    write_file(tmp_path / "new" / "a.safetensors", {"part": torch.ones(2)}, lambda tensors: {"state_dict": tensors})
    assert set(load_file(tmp_path / "new" / "a.safetensors")) == {"part"}


def test_a_folder_that_fails_leaves_nothing(tmp_path, monkeypatch):
    def full(*args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("src.weights.written.write_tensors", full)
    with pytest.raises(ValueError, match=r"hub cannot be written \(No space left on device\); make room"):
        write_folder(tmp_path / "hub", {"part": torch.ones(1)}, {})
    with pytest.raises(ValueError, match=r"a\.safetensors cannot be written"):
        write_file(tmp_path / "a.safetensors", {"part": torch.ones(1)}, dict)
    assert list(tmp_path.iterdir()) == []


def test_an_old_file_stays_where_writing_fails(tmp_path, monkeypatch):
    def full(*args):
        raise RuntimeError("PytorchStreamWriter failed writing file\nmore")

    (tmp_path / "a.pth").write_text("old")
    monkeypatch.setattr("torch.save", full)
    with pytest.raises(ValueError, match=r"a\.pth cannot be written \(PytorchStreamWriter failed writing file\)"):
        write_file(tmp_path / "a.pth", {"part": torch.ones(1)}, dict)
    assert (tmp_path / "a.pth").read_text() == "old"
