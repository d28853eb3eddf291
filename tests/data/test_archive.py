import shutil
import stat
import zipfile
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from src.data.archive import unpack

FILES = {"Set/images/a.txt": b"a" * 5000, "Set/masks/ü b.txt": b"b", "Set/note.txt": b""}


def zipped(path: Path, files: dict[str | zipfile.ZipInfo, bytes], **options: int) -> Path:
    with zipfile.ZipFile(path, "w", **options) as file:
        for name, content in files.items():
            file.writestr(name, content)
    return path


def refused(tmp_path: Path, archive: Path, message: str) -> None:
    before = sorted(path for path in tmp_path.rglob("*"))
    with pytest.raises(ValueError, match=message):
        unpack(archive, tmp_path / "made")
    assert sorted(path for path in tmp_path.rglob("*")) == before


@pytest.mark.parametrize("compression", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
@pytest.mark.parametrize("exists", [True, False])
def test_the_folder_at_the_top_becomes_the_one_that_is_asked_for(tmp_path: Path, compression: int, exists: bool):
    archive = zipped(tmp_path / "set.zip", {"Set/": b""} | FILES, compression=compression)
    if exists:
        (tmp_path / "made").mkdir()
    unpack(archive, tmp_path / "made")
    made = {path.relative_to(tmp_path).as_posix(): path for path in (tmp_path / "made").rglob("*") if path.is_file()}
    assert {name.replace("made/", "Set/"): path.read_bytes() for name, path in made.items()} == FILES
    assert sorted(path.name for path in tmp_path.iterdir()) == ["made", "set.zip"]


@pytest.mark.parametrize(
    "name",
    ["../evil", "Set/../../evil", "/evil", "//host/evil", "C:/evil", "C:evil", "Set\\..\\..\\evil", "\\evil", ".", ""],
)
def test_no_entry_leads_out_of_the_folder(tmp_path: Path, name: str):
    entry = zipfile.ZipInfo()
    entry.filename = entry.orig_filename = name
    refused(tmp_path, zipped(tmp_path / "set.zip", {**FILES, entry: b"evil"}), r"which leads out of its folder")


def test_links_are_refused(tmp_path: Path):
    link = zipfile.ZipInfo("Set/link")
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    archive = zipped(tmp_path / "set.zip", {**FILES, link: b"../../..", "Set/link/evil": b"evil"})
    refused(tmp_path, archive, "got the link Set/link")


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize("second", ["Set/note.txt", "Set//note.txt", "Set/./note.txt"])
def test_names_that_come_twice_are_refused(tmp_path: Path, second: str):
    refused(tmp_path, zipped(tmp_path / "set.zip", {**FILES, zipfile.ZipInfo(second): b"2"}), "got 1 names twice")


@pytest.mark.parametrize("files", [{}, {"a.txt": b"a"}, {**FILES, "other/a.txt": b"a"}])
def test_anything_but_one_folder_is_refused(tmp_path: Path, files: dict):
    refused(tmp_path, zipped(tmp_path / "set.zip", files), rf"one folder of files, got {min(len(files), 2)} entries")


def test_a_file_in_place_of_a_folder_is_an_error(tmp_path: Path):
    refused(tmp_path, zipped(tmp_path / "set.zip", {"Set/a": b"", "Set/a/b": b""}), r"set\.zip cannot be unpacked to")


def test_one_wrong_byte_is_found(tmp_path: Path):
    archive = zipped(tmp_path / "set.zip", FILES)
    archive.write_bytes(archive.read_bytes().replace(b"aaaa", b"aaab", 1))
    refused(tmp_path, archive, r"set\.zip must be a whole zip file, got Bad CRC-32.*; remove it")


@pytest.mark.parametrize("content", [b"", b"<html>not found</html>"])
def test_what_is_no_zip_file_is_named(tmp_path: Path, content: bytes):
    (tmp_path / "set.zip").write_bytes(content)
    refused(tmp_path, tmp_path / "set.zip", r"set\.zip must be a whole zip file, got File is not a zip file")


def test_damaged_files_are_never_unpacked_in_part(tmp_path: Path):
    whole = zipped(tmp_path / "set.zip", FILES, compression=zipfile.ZIP_DEFLATED).read_bytes()
    rng = np.random.default_rng(0)
    outcomes = set()
    for _ in range(150):
        damaged = bytearray(whole)
        for place in rng.integers(0, len(whole), 3):
            damaged[place] = rng.integers(256)
        (tmp_path / "set.zip").write_bytes(damaged[: int(rng.integers(len(whole))) if rng.random() < 0.3 else None])
        try:
            unpack(tmp_path / "set.zip", tmp_path / "made")
            outcomes.add("unpacked")
            shutil.rmtree(tmp_path / "made")
        except ValueError as error:
            outcomes.add("refused")
            assert "set.zip" in str(error)
        assert [path.name for path in tmp_path.iterdir()] == ["set.zip"]
    assert "refused" in outcomes


def test_room_for_everything_is_looked_for_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    bomb = zipped(tmp_path / "bomb.zip", {"Set/zeros": bytes(30 << 20)}, compression=zipfile.ZIP_DEFLATED)
    assert bomb.stat().st_size < 100_000
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=20 << 20))
    refused(tmp_path, bomb, r"must have room for bomb\.zip, got 0\.02 GiB of 0\.03 GiB")


def test_what_an_interrupted_try_left_is_removed(tmp_path: Path):
    left = tmp_path / ".made.unpacking" / "Set" / "images"
    left.mkdir(parents=True)
    (left / "half.txt").write_text("half")
    unpack(zipped(tmp_path / "set.zip", FILES), tmp_path / "made")
    assert not (tmp_path / "made" / "images" / "half.txt").exists()
    assert not (tmp_path / ".made.unpacking").exists()


def test_a_folder_that_holds_something_is_not_replaced(tmp_path: Path):
    (tmp_path / "made").mkdir()
    (tmp_path / "made" / "mine.txt").write_text("mine")
    refused(tmp_path, zipped(tmp_path / "set.zip", FILES), r"cannot be unpacked to .*/made \(")
    assert [path.name for path in (tmp_path / "made").iterdir()] == ["mine.txt"]
