import pickle
import zipfile

import pytest
import torch

from src.inference.checkpoint_file import load_file


@pytest.fixture
def path(tmp_path):
    return tmp_path / "some.ckpt"


def test_what_was_saved_is_loaded_where_it_is_asked_for(path):
    torch.save({"a": torch.arange(3), "b": ["text", 1.5, None]}, path)
    loaded = load_file(path)
    assert torch.equal(loaded.pop("a"), torch.arange(3))
    assert loaded == {"b": ["text", 1.5, None]}
    assert load_file(str(path), "meta")["a"].device.type == "meta"


def test_missing_file_is_named(path):
    with pytest.raises(FileNotFoundError, match=r"got .*some\.ckpt, which does not exist; training writes"):
        load_file(path)


def test_a_folder_is_named(tmp_path):
    with pytest.raises(ValueError, match=r"ckpt_path must be a checkpoint file, got .*, which is a folder; give one"):
        load_file(tmp_path)


@pytest.mark.parametrize("name", ["a" * 300, "file/below"])
def test_a_path_that_cannot_be_is_named(tmp_path, name):
    (tmp_path / "file").touch()
    with pytest.raises(ValueError, match=rf"ckpt_path must be a file that may be read, got .*{name} \(.+\)"):
        load_file(tmp_path / name)


def test_a_file_that_may_not_be_read_is_named(path, monkeypatch):
    def refuse(*args, **kwargs):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("pathlib.Path.open", refuse)
    with pytest.raises(ValueError, match=r"ckpt_path must be a file that may be read, got .* \(Permission denied\)"):
        load_file(path)


def test_bytes_that_were_damaged_are_named(path):
    torch.save({"weights": torch.randn(1000)}, path)
    content = bytearray(path.read_bytes())
    place = len(content) // 2
    content[place : place + 8] = bytes(8)
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"some\.ckpt cannot be read as a checkpoint: it is damaged"):
        load_file(path)


def test_a_file_cut_anywhere_is_named(path):
    torch.save({"weights": torch.randn(1000)}, path)
    content = path.read_bytes()
    for length in (*range(0, len(content), len(content) // 10), 1, 3, len(content) - 1):
        path.write_bytes(content[:length])
        with pytest.raises(ValueError, match=r"some\.ckpt cannot be read as a checkpoint: it is (empty|cut)"):
            load_file(path)


def test_damaged_bytes_end_in_a_plain_error_or_in_other_values(path):
    torch.save({"weights": torch.randn(10), "names": ["a", "b"]}, path)
    content = path.read_bytes()
    refused = 0
    for place in range(0, len(content), 7):
        path.write_bytes(content[:place] + bytes([content[place] ^ 0x5A]) + content[place + 1 :])
        try:
            load_file(path)
        except ValueError as error:
            assert "cannot be read as a checkpoint" in str(error)
            refused += 1
    assert refused > 10


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"", "it is empty"),
        (b"hello", "it is cut or of another program"),
        (b"PK\x03\x04 no archive", "it is cut or damaged"),
        (pickle.dumps({"state_dict": {}}), "it is cut or of another program"),
        (b"\x08\0\0\0\0\0\0\0{}      ", "it is cut or of another program"),  # an empty file of safetensors
    ],
)
def test_a_file_that_is_no_checkpoint_is_named(path, content, told):
    path.write_bytes(content)
    with pytest.raises(ValueError, match=rf"some\.ckpt cannot be read as a checkpoint: {told}; copy it again"):
        load_file(path)


def test_an_archive_of_something_else_is_named(path):
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a/report.xml", "<a/>")
    with pytest.raises(ValueError, match="it is an archive of another program"):
        load_file(path)


def test_a_compiled_program_is_named(path, recwarn):
    torch.jit.script(torch.nn.ReLU()).save(path)
    recwarn.clear()
    with pytest.raises(ValueError, match="it is a TorchScript program"):
        load_file(path)
    assert not recwarn.list


class Planted:
    def __reduce__(self):
        return pytest.fail, ("code in the file ran",)


@pytest.mark.parametrize("wrapped", [Planted(), {"a": [Planted()]}, torch.nn.Linear(1, 1)])
def test_code_in_a_file_is_not_run(path, wrapped):
    torch.save(wrapped, path)
    with pytest.raises(ValueError, match=r"it holds an object of .*(Fail|Linear).*, and nothing that"):
        load_file(path)
