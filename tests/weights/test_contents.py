import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from src.classes import ClassList
from src.models.section import checkpoint_section
from src.preprocessing import Preprocessing
from src.weights.contents import FileContents, read_contents
from tests.weights.pickle_files import save

WEIGHTS = {"a.w": torch.arange(3.0), "b": torch.arange(4, dtype=torch.int64), "c": torch.ones(2).bfloat16()}
OTHERS = {name: value + 1 for name, value in WEIGHTS.items()}


def assert_weights(contents: FileContents, expected=WEIGHTS) -> None:
    assert contents.tensors.keys() == expected.keys()
    for name, value in expected.items():
        assert contents.tensors[name].dtype == value.dtype
        assert torch.equal(contents.tensors[name], value)


@pytest.mark.parametrize("name", ["a.pth", "a.pt", "a.bin", "a.ckpt", "a.safetensors", "a", "a.txt"])
def test_a_file_is_known_by_its_content(tmp_path, name):
    path = tmp_path / name
    for form in ("archive", "stream"):
        contents = read_contents(save({"state_dict": WEIGHTS, "epoch": 3}, path, form))
        assert_weights(contents)
        assert contents == FileContents(path, contents.tensors, {"epoch": 3}, ())
    save_file(WEIGHTS, path, {"format": "pt", "note": "mine"})
    contents = read_contents(path)
    assert_weights(contents)
    assert contents.facts == {"safetensors": {"format": "pt", "note": "mine"}}


def test_names_in_safetensors_lose_their_wrappers(tmp_path):
    save_file({f"module.{name}": value for name, value in WEIGHTS.items()}, tmp_path / "a")
    assert_weights(read_contents(tmp_path / "a"))


def test_notes_of_a_choice_arrive(tmp_path):
    contents = read_contents(save({"model": OTHERS, "model_ema": WEIGHTS}, tmp_path / "a.pth", "archive"))
    assert_weights(contents)
    assert contents.notes == ("the average of the weights (model_ema) was taken",)


def test_a_checkpoint_of_this_toolkit_keeps_what_it_says_of_itself(tmp_path, tiny_segmenter):
    model = tiny_segmenter(2)
    section = checkpoint_section(model, ClassList(("a", "b"), ((0, 0, 0), (1, 1, 1))), Preprocessing())
    state = {f"model.{name}": value for name, value in model.state_dict().items()}
    tree = {"epoch": 1, "state_dict": state, "segmentation": section, "loops": {}, "hyper_parameters": {"x": 1}}
    contents = read_contents(save(tree, tmp_path / "last.ckpt", "archive"))
    assert contents.facts == {"epoch": 1, "segmentation": section, "hyper_parameters": {"x": 1}}
    assert_weights(contents, state)


@pytest.mark.parametrize("main", ["model.safetensors", "pytorch_model.bin"])
def test_a_config_belongs_to_a_folder_and_to_the_files_that_are_named_after_a_model(tmp_path, main):
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "upernet", "ä": [1]}))
    path = tmp_path / main
    save_file(WEIGHTS, path) if path.suffix == ".safetensors" else save(WEIGHTS, path, "archive")
    for place in (tmp_path, path):
        contents = read_contents(place)
        assert_weights(contents)
        assert contents.path == path
        assert contents.facts["config"] == {"model_type": "upernet", "ä": [1]}
    other = path.rename(tmp_path / "other.pth")
    assert "config" not in read_contents(other).facts
    assert "config" in read_contents(tmp_path).facts


def test_the_config_of_a_folder_wins_over_one_in_the_file(tmp_path):
    save({"state_dict": WEIGHTS, "config": {"a": 1}}, tmp_path / "pytorch_model.bin", "archive")
    assert read_contents(tmp_path).facts == {"config": {"a": 1}}
    (tmp_path / "config.json").write_text('{"b": 2}')
    assert read_contents(tmp_path).facts == {"config": {"b": 2}}


def test_complex_tensors_are_refused(tmp_path):
    save_file({"a": torch.ones(2, dtype=torch.complex64)}, tmp_path / "a.safetensors")
    with pytest.raises(ValueError, match=r"a\.safetensors cannot be .*it holds a tensor of a kind that is not read"):
        read_contents(tmp_path / "a.safetensors")


@pytest.mark.parametrize("kind", [torch.float8_e4m3fn, torch.float8_e5m2])
def test_tensors_of_eight_bits_are_read(tmp_path, kind):
    expected = torch.tensor([0.5, -2, 0]).to(kind)
    save_file({"a": expected}, tmp_path / "a.safetensors")
    for path in (tmp_path / "a.safetensors", save({"a": expected}, tmp_path / "a.pth", "archive")):
        found = read_contents(path).tensors["a"]
        assert found.dtype == kind
        assert found.float().tolist() == [0.5, -2, 0]


def test_of_a_folder_the_file_of_the_model_is_taken(tmp_path):
    save(OTHERS, tmp_path / "optimizer.pt", "archive")
    save(OTHERS, tmp_path / "pytorch_model.bin", "archive")
    save_file(WEIGHTS, tmp_path / "model.safetensors")
    assert_weights(read_contents(tmp_path))


def test_of_a_folder_the_only_file_is_taken(tmp_path):
    (tmp_path / "README.md").write_text("weights")
    (tmp_path / "deeper.pth").mkdir()
    save(WEIGHTS, tmp_path / "best-0123.pth", "stream")
    assert_weights(read_contents(tmp_path))


def test_a_folder_that_does_not_tell_which_file_is_meant_is_named(tmp_path):
    with pytest.raises(
        FileNotFoundError, match=rf"{tmp_path} must be a folder with weights, got an empty one; give one"
    ):
        read_contents(tmp_path)
    (tmp_path / "README.md").write_text("weights")
    with pytest.raises(
        FileNotFoundError, match=r"got README\.md; give one with a file that ends in \.safetensors, \.pth"
    ):
        read_contents(tmp_path)
    for name in ("best.ckpt", "last.ckpt"):
        save(WEIGHTS, tmp_path / name, "archive")
    with pytest.raises(ValueError, match=r"one file of weights, got best\.ckpt, last\.ckpt; give one of them"):
        read_contents(tmp_path)


def sharded(folder: Path, suffix: str) -> Path:
    names = {"a.w": f"part-1.{suffix}", "b": f"part-2.{suffix}", "c": f"part-2.{suffix}"}
    for part in set(names.values()):
        tensors = {name: WEIGHTS[name] for name in names if names[name] == part} | {"spare": torch.zeros(1)}
        if suffix == "safetensors":
            save_file(tensors, folder / part)
        else:
            save(tensors, folder / part, "archive")
    main = "model.safetensors" if suffix == "safetensors" else "pytorch_model.bin"
    index = folder / f"{main}.index.json"
    index.write_text(json.dumps({"metadata": {"total_size": 9}, "weight_map": names}))
    return index


@pytest.mark.parametrize("suffix", ["safetensors", "bin"])
def test_several_parts_are_joined(tmp_path, suffix):
    index = sharded(tmp_path, suffix)
    (tmp_path / "config.json").write_text("{}")
    for place in (tmp_path, index):
        contents = read_contents(place)
        assert_weights(contents)
        assert contents.path == index
        assert contents.facts == {"config": {}}


def test_what_an_index_does_not_name_is_told(tmp_path):
    found = read_contents(sharded(tmp_path, "bin"))
    assert found.notes == ("1 tensors that the index does not name were left out: spare",)
    assert "spare" not in found.tensors
    save({"a.w": WEIGHTS["a.w"]}, tmp_path / "part-1.bin", "archive")
    save({"b": WEIGHTS["b"], "c": WEIGHTS["c"]}, tmp_path / "part-2.bin", "archive")
    assert read_contents(tmp_path).notes == ()


def test_an_index_with_names_that_cannot_be_shown_is_named(tmp_path):
    save({"a\x1b": WEIGHTS["b"]}, tmp_path / "part.bin", "archive")
    index = tmp_path / "pytorch_model.bin.index.json"
    index.write_text(json.dumps({"weight_map": {"a\x1b": "part.bin"}}))
    with pytest.raises(ValueError, match=rf"{index} cannot be read as weights: the names of its tensors must be print"):
        read_contents(index)


def test_parts_behind_links_are_read(tmp_path):
    """As the Hub's cache keeps them."""
    (tmp_path / "blobs").mkdir()
    index = sharded(tmp_path / "blobs", "safetensors")
    (tmp_path / "snapshot").mkdir()
    for number, path in enumerate(sorted((tmp_path / "blobs").iterdir())):
        (tmp_path / "snapshot" / path.name).symlink_to(path.rename(tmp_path / "blobs" / str(number)))
    assert_weights(read_contents(tmp_path / "snapshot"))
    assert not index.exists()


def test_parts_that_are_missing_are_named(tmp_path):
    index = sharded(tmp_path, "safetensors")
    (tmp_path / "part-1.safetensors").unlink()
    with pytest.raises(
        FileNotFoundError, match=rf"{index} names part-1\.safetensors, which must be beside it; fetch all 2"
    ):
        read_contents(tmp_path)


def test_names_that_a_part_lacks_are_named(tmp_path):
    index = sharded(tmp_path, "bin")
    save({"b": WEIGHTS["b"]}, tmp_path / "part-2.bin", "archive")
    with pytest.raises(ValueError, match=rf"{index} .*its parts lack what it names: c in part-2\.bin"):
        read_contents(tmp_path)


@pytest.mark.parametrize(
    "part",
    [
        "../outside.bin",
        "/etc/passwd",
        "deeper/x.bin",
        "..",
        "",
        "C:\\x.bin",
        "..\\x.bin",
        3,
        None,
        "x" * 5000,
        "a\0b",
        "\ud800",
        "\x1b[2J",
    ],
)
def test_an_index_cannot_lead_elsewhere(tmp_path, part):
    folder = tmp_path / "folder"
    folder.mkdir()
    save(WEIGHTS, tmp_path / "outside.bin", "archive")
    index = folder / "pytorch_model.bin.index.json"
    index.write_text(json.dumps({"weight_map": {"b": part}}))
    with pytest.raises(ValueError, match=r"its weight_map must name files beside it, got ") as error:
        read_contents(index)
    assert str(error.value).isprintable()
    assert len(str(error.value)) < 1000


@pytest.mark.parametrize("content", ["{}", '{"weight_map": []}', '{"weight_map": {}}', '{"weight_map": null}'])
def test_an_index_without_names_is_refused(tmp_path, content):
    (tmp_path / "model.safetensors.index.json").write_text(content)
    with pytest.raises(ValueError, match="it must have a weight_map from names to files, and has none"):
        read_contents(tmp_path)


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"{", "must be a file of JSON, got one that cannot be read"),
        (b"\xff\xfe", "must be a file of JSON"),
        (b"[" * 100_000, "must be a file of JSON"),
        (b"[]", "must hold an object of JSON, got list"),
        (b"", "it is empty"),
        (b"version https://git-lfs.github.com/spec/v1\n", "it is a pointer of Git LFS"),
    ],
)
def test_a_config_that_cannot_be_read_is_named(tmp_path, content, told):
    save_file(WEIGHTS, tmp_path / "model.safetensors")
    (tmp_path / "config.json").write_bytes(content)
    with pytest.raises(ValueError, match=rf"config\.json .*{told}"):
        read_contents(tmp_path)


def test_damaged_safetensors_are_named(tmp_path):
    path = tmp_path / "model.safetensors"
    save_file(WEIGHTS, path)
    content = path.read_bytes()
    for length in range(0, len(content), 7):
        path.write_bytes(content[:length])
        with pytest.raises(ValueError, match=r"model\.safetensors cannot be read as weights: it is (cut|empty)"):
            read_contents(path)
    path.write_bytes((2**40).to_bytes(8, "little") + content[8:])
    with pytest.raises(ValueError, match=r"cannot be read as weights: it is cut or damaged"):
        read_contents(path)
    path.write_bytes(content.replace(b"I64", b"X64"))
    with pytest.raises(ValueError, match=r"cannot be read as weights: it is cut or damaged"):
        read_contents(path)


def test_a_pointer_of_git_in_place_of_safetensors_is_named(tmp_path):
    path = tmp_path / "model.safetensors"
    path.write_text("version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 3\n")
    with pytest.raises(ValueError, match=r"it is a pointer of Git LFS, not the file itself"):
        read_contents(tmp_path)


def test_a_file_without_tensors_is_named_with_what_it_holds(tmp_path):
    for tree, told in (({"epoch": 3}, "got 'epoch'"), ([1], "got a list alone")):
        with pytest.raises(
            ValueError, match=rf"a\.pth cannot be read as weights: it must hold named tensors, {told}; copy"
        ):
            read_contents(save(tree, tmp_path / "a.pth", "archive"))
    save_file({}, tmp_path / "a.pth")
    with pytest.raises(ValueError, match="it must hold named tensors, got nothing"):
        read_contents(tmp_path / "a.pth")


def test_nothing_there_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"none\.pth must be a file of weights, got nothing there"):
        read_contents(tmp_path / "none.pth")
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(FileNotFoundError, match=r"model\.safetensors must be a file of weights, got nothing there"):
        read_contents(tmp_path / "model.safetensors")
