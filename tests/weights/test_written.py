import json
import platform
import resource
import subprocess
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file

from src.weights.written import check_apart, check_destination, write_file, write_folder


def check(path, is_folder=False, overwrite=False):
    check_destination(path, is_folder, overwrite)


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
        for source in (path, tmp_path / "link.pth", tmp_path / "folder"):
            with pytest.raises(ValueError, match=r"OUT must be another place than IN"):
                check_apart(out, source)
    for out in (tmp_path / "folder", tmp_path):
        with pytest.raises(ValueError, match=r"OUT must be another place than IN"):
            check_apart(out, path)
    (tmp_path / "folder" / "b.pth").touch()
    check_apart(tmp_path / "folder" / "b.pth", path)
    check_apart(tmp_path / "folder" / "c.pth", tmp_path / "folder")


@pytest.mark.parametrize("is_folder", [True, False])
def test_the_parts_of_an_index_are_its_source(tmp_path, is_folder):
    index = tmp_path / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": {"a": "1.safetensors", "b": "2.safetensors"}}))
    for name in ("1.safetensors", "2.safetensors", "3.safetensors"):
        (tmp_path / name).touch()
    (tmp_path / "link.pth").symlink_to(tmp_path / "2.safetensors")
    for name in ("1.safetensors", "2.safetensors", "link.pth", index.name):
        with pytest.raises(ValueError, match=r"OUT must be another place than IN"):
            check_apart(tmp_path / name, tmp_path if is_folder else index)
    if not is_folder:
        check_apart(tmp_path / "3.safetensors", index)


@pytest.mark.parametrize("text", ["[1]", "{", '{"weight_map": 3}', "[" * 100_000, ""])
def test_an_index_that_is_none_is_told_by_who_reads_it(tmp_path, text):
    (tmp_path / "a.index.json").write_text(text)
    (tmp_path / "b.pth").touch()
    check_apart(tmp_path / "b.pth", tmp_path / "a.index.json")


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


def test_places_where_nothing_can_be_are_told(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.pth").touch()
    for out in ("a.pth/x.pth", "a.pth/new/x.pth", tmp_path / "a.pth" / "x.pth"):
        with pytest.raises(ValueError, match=r"OUT must be in a folder, got .*a\.pth is a file; choose another place"):
            check(Path(out))
    with pytest.raises(ValueError, match=r"cannot be written \(File name too long\)"):
        check(Path("a" * 300 + ".pth"))
    for out in (".", "", tmp_path):
        with pytest.raises(ValueError, match="OUT must be another folder than the one you are in"):
            check(Path(out), is_folder=True)
        with pytest.raises(ValueError, match="OUT must end in"):
            check(Path(out))


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


def test_values_stand_beside_a_safe_file(tmp_path):
    write_file(tmp_path / "a.safetensors", {"part": torch.ones(2)}, dict, {"swin": "{}"})
    with safe_open(tmp_path / "a.safetensors", framework="pt") as opened:
        assert opened.metadata() == {"format": "pt", "swin": "{}"}


@pytest.mark.parametrize("name", ["a.pth", "a.safetensors", "hub"])
def test_a_link_stays_and_what_it_leads_to_is_replaced(tmp_path, name):
    (tmp_path / "there").mkdir()
    link, there = tmp_path / name, tmp_path / "there" / name
    link.symlink_to(there)
    for value in (1.0, 2.0):
        if name == "hub":
            write_folder(link, {"part": torch.tensor(value)}, {"config.json": {}})
            held = load_file(there / "model.safetensors")
        else:
            write_file(link, {"part": torch.tensor(value)}, dict)
            held = load_file(there) if name.endswith("safetensors") else torch.load(there, weights_only=True)
        assert link.is_symlink()
        assert held["part"] == value
    assert list(there.parent.iterdir()) == [there]


@pytest.mark.parametrize("name", ["a.pth", "hub"])
def test_what_a_killed_conversion_left_is_removed(tmp_path, name):
    ended = int(subprocess.run(["sh", "-c", "echo $$"], capture_output=True, check=True).stdout)
    (tmp_path / f".01234567.{platform.node()[:64]}.{ended}.part").touch()
    if name == "hub":
        write_folder(tmp_path / name, {"part": torch.ones(1)}, {})
    else:
        write_file(tmp_path / name, {"part": torch.ones(1)}, dict)
    assert list(tmp_path.iterdir()) == [tmp_path / name]


def test_why_a_file_could_not_be_written_is_said_in_the_words_of_the_system(tmp_path):
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))  # as a full disk, torch says something else of it
    try:
        with pytest.raises(ValueError, match=r"a\.pth cannot be written \(File too large\); make room"):
            write_file(tmp_path / "a.pth", {"part": torch.ones(1_000_000)}, dict)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert list(tmp_path.iterdir()) == []


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
