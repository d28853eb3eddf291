"""Files that cannot be read as those of ``torch.save`` are named, with the reason."""

import os
import pickle
import tarfile
import zipfile
from argparse import Namespace

import pytest
import torch
from torch import nn

from src.weights.pickled import load_pickled
from tests.weights.pickle_files import FORMS, save


@pytest.fixture
def path(tmp_path):
    return tmp_path / "some.pth"


def test_a_file_that_holds_nothing_readable_is_named(path):
    with pytest.raises(
        ValueError, match=r"some\.pth cannot be read as weights: it holds neither tensors nor plain val"
    ):
        load_pickled(save(Namespace(a=1), path, "archive"))


def test_what_is_not_a_file_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"none\.pth must be a file of weights, got nothing there; check the p"):
        load_pickled(tmp_path / "none.pth")
    with pytest.raises(ValueError, match=rf"{tmp_path} must be a file of weights, got a folder; give a file in it"):
        load_pickled(tmp_path)
    for name in ("a" * 300, "nul\0"):
        with pytest.raises(ValueError, match=r"must be a file that may be read, got .+; check the path"):
            load_pickled(tmp_path / name)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="the system has no pipes with names")
def test_what_may_never_end_is_not_opened(path):
    os.mkfifo(path)
    for place in (path, "/dev/zero"):
        with pytest.raises(
            ValueError, match=rf"{place} must be a file that may be read, got a device or a pipe; check"
        ):
            load_pickled(place)


def test_a_bad_file_that_was_fetched_is_to_be_removed(tmp_path, monkeypatch):
    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    monkeypatch.setattr(torch.hub, "_hub_dir", None)
    kept, own = tmp_path / "hub" / "checkpoints" / "a" / "swin.pth", tmp_path / "swin.pth"
    kept.parent.mkdir(parents=True)
    for path, remedy in ((kept, "remove it and start again"), (own, "copy it again")):
        path.write_bytes(b"<html>")
        with pytest.raises(ValueError, match=rf"{path} cannot be read as weights: it is a web page.*; {remedy},? or"):
            load_pickled(path)


def test_one_turned_bit_in_the_memory_of_a_tensor_is_told(path):
    content = save({"a": torch.arange(100.0)}, path, "archive").read_bytes()
    place = content.index(torch.arange(100.0).numpy().tobytes()) + 5
    path.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
    with pytest.raises(ValueError, match="cannot be read as weights: it is damaged; copy it again"):
        load_pickled(path)


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_an_archive_with_two_memories_of_one_name_is_told(path):
    save({"a": torch.arange(2.0)}, path, "archive")
    with zipfile.ZipFile(path, "a") as archive:
        name = next(name for name in archive.namelist() if name.endswith("/data/0"))
        archive.writestr(name, bytes(8))
    with pytest.raises(ValueError, match="it is an archive of another program"):
        load_pickled(path)


def a_tar(path):
    with tarfile.open(path, "w") as archive:
        for name in ("storages", "tensors", "pickle"):
            archive.addfile(tarfile.TarInfo(name))


def a_program(path):
    with zipfile.ZipFile(path, "w") as archive:
        for name in ("data.pkl", "constants.pkl", "version"):
            archive.writestr(f"net/{name}", b"N.")


def an_archive(path):
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("report.xml", "<a/>")


def a_packed_archive(path):
    with zipfile.ZipFile(save({"a": torch.zeros(9)}, path, "archive")) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"", "it is empty"),
        (b"\n<!DOCTYPE html><html>", "it is a web page"),
        (b"\xef\xbb\xbf<HTML>", "it is a web page"),
        (
            b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n",
            "it is a pointer of Git LFS, not the file itself",
        ),
        (b"\x1f\x8b\x08", "it is packed with gzip"),
        (b"\x89HDF\r\n", "it is a file of HDF5"),
        (b"PK\x03\x04 no archive", "it is cut or damaged"),
        (b"hello", "it is cut or damaged, or of another program"),
        (bytes(600), "it is cut or damaged, or of another program"),
        (pickle.dumps({"state_dict": {}}), "it is a pickle of another program than torch.save"),
        (b'{"error": "gone"}', "it is cut or damaged, or of another program"),
        (a_tar, "it is a tar archive"),
        (a_program, "it is a TorchScript program"),
        (an_archive, "it is an archive of another program"),
        (a_packed_archive, "it is an archive that another program has packed again"),
    ],
)
def test_a_file_of_something_else_is_named(path, content, told):
    path.write_bytes(content) if isinstance(content, bytes) else content(path)
    with pytest.raises(
        ValueError, match=rf"some\.pth cannot be read as weights: {told}.*; copy it again or give anoth"
    ):
        load_pickled(path)


def test_a_program_is_not_opened(path, monkeypatch):
    torch.jit.script(nn.ReLU()).save(path)
    monkeypatch.setattr(torch.jit, "load", lambda *args, **options: pytest.fail("it was opened"))
    with pytest.raises(ValueError, match="it is a TorchScript program"):
        load_pickled(path)


@pytest.mark.parametrize("form", FORMS)
def test_a_cut_file_is_named_wherever_it_is_cut(path, form):
    content = save({"weights": torch.randn(1000), "more": torch.randn(3)}, path, form).read_bytes()
    for length in (*range(1, len(content), len(content) // 40), len(content) - 1):
        path.write_bytes(content[:length])
        with pytest.raises(ValueError, match=r"some\.pth cannot be read as weights: it is (cut|damaged)"):
            load_pickled(path)


@pytest.mark.parametrize("form", FORMS)
def test_damaged_bytes_end_in_a_plain_error_or_in_other_values(path, form):
    content = save({"weights": torch.randn(10), "names": ["a", "b"]}, path, form).read_bytes()
    refused = 0
    for place in range(0, len(content), 3):
        path.write_bytes(content[:place] + bytes([content[place] ^ 0x5A]) + content[place + 1 :])
        try:
            load_pickled(path)
        except ValueError as error:
            assert "cannot be read as weights" in str(error)
            refused += 1
    assert refused > 50


@pytest.mark.parametrize(
    "make",
    [
        lambda: torch.sparse_coo_tensor([[0], [1]], [1.0], (2, 2)),
        lambda: torch.eye(2).to_sparse_csr(),
        lambda: torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.qint8),
        lambda: torch.ones(2, dtype=torch.complex64),
        lambda: torch.empty(2, device="meta"),
        lambda: torch.ones(2, dtype=torch.complex64).conj().imag,
    ],
)
@pytest.mark.filterwarnings("ignore")
def test_tensors_of_other_kinds_are_refused_plainly(path, make):
    with pytest.raises(ValueError, match="it holds a tensor of a kind that is not read"):
        load_pickled(save({"a": make()}, path, "archive"))


def test_a_whole_model_is_refused_with_what_to_do(path):
    with pytest.raises(
        ValueError, match=r"a whole model \(torch\.nn\.modules\.linear\.Linear\).*save model\.state_dict"
    ):
        load_pickled(save(nn.Linear(1, 1), path, "archive"))
