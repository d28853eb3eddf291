"""Folders of a model that are damaged, or ask for more than their weights."""

import json

import pytest
from safetensors.torch import load_file, save_file

from src.classes import ClassList
from src.models import Segmenter
from src.models.pretrained import CONFIG, WEIGHTS
from src.preprocessing import Preprocessing


@pytest.fixture
def folder(tiny_segmenter, tmp_path):
    classes = ClassList.from_names(["sky", "tree", "road"])
    return tiny_segmenter(num_classes=3).save_pretrained(tmp_path / "saved", classes, Preprocessing())


def change(folder, *keys: str, value: object) -> None:
    """Puts a value into ``config.json``."""
    config = json.loads((folder / CONFIG).read_text())
    place = config
    for key in keys[:-1]:
        place = place[key]
    place[keys[-1]] = value
    (folder / CONFIG).write_text(json.dumps(config))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", r"config\.json cannot be read"),
        ("{", r"config\.json cannot be read"),
        ("[" * 100_000, r"config\.json cannot be read"),
        ("[1]", r"whose config\.json is of another program"),
        ('{"model_type": "upernet"}', r"whose config\.json is of another program; src\.weights\.load_weights reads"),
        ('{"library_name": "swin-upernet-lightning"}', "its format version must be a whole number from 1, got None"),
        ('{"library_name": "swin-upernet-lightning", "format_version": 9}', "up to 1, got 9; update the toolkit"),
        ('{"library_name": "swin-upernet-lightning", "format_version": 1}', "is damaged: it lacks model"),
        ('{"library_name": "swin-upernet-lightning", "format_version": 1, "model": {}}', "KeyError: 'class_path'"),
        ('{"library_name": "swin-upernet-lightning", "format_version": 1, "model": 3}', "model must be names with"),
    ],
)
def test_a_damaged_config_is_told(folder, text, told):
    (folder / CONFIG).write_text(text)
    with pytest.raises(ValueError, match=told):
        Segmenter.from_pretrained(folder)


def test_a_config_cannot_call_anything_but_a_model(folder):
    config = json.loads((folder / CONFIG).read_text())
    config["model"] = {"class_path": "os.mkdir", "init_args": {"path": str(folder / "planted")}}
    (folder / CONFIG).write_text(json.dumps(config))
    with pytest.raises(ValueError, match=r"must be a torch\.nn\.Module"):
        Segmenter.from_pretrained(folder)
    assert not (folder / "planted").exists()


def test_missing_and_cut_weights_are_told(folder):
    (folder / WEIGHTS).write_bytes((folder / WEIGHTS).read_bytes()[:-100])
    with pytest.raises(ValueError, match=r"model\.safetensors is missing or damaged"):
        Segmenter.from_pretrained(folder)
    (folder / WEIGHTS).unlink()
    with pytest.raises(ValueError, match=r"model\.safetensors is missing or damaged"):
        Segmenter.from_pretrained(folder)


def test_weights_of_another_model_are_told(folder):
    tensors = load_file(folder / WEIGHTS)
    save_file({name: value for name, value in tensors.items() if name != "decoder.conv_seg.bias"}, folder / WEIGHTS)
    with pytest.raises(ValueError, match=r"must hold the weights of the model .*decoder\.conv_seg\.bias"):
        Segmenter.from_pretrained(folder)


@pytest.mark.parametrize(
    ("keys", "value", "told"),
    [
        (("model", "init_args"), None, "init_args must be names with values, got NoneType"),
        (("model", "init_args", "encoder", "init_args"), None, "init_args must be names with values, got NoneType"),
        (("model", "init_args", "decoder", "init_args"), [1], "init_args must be names with values, got list"),
        (("preprocessing",), -1, "preprocessing must be names with values, got int"),
        (("preprocessing", "mean"), -1, "holds settings that cannot be used"),
        (("classes", "names"), 3, "holds settings that cannot be used"),
        (("scores",), 5, "scores must be names with values, got int"),
    ],
)
def test_damaged_values_are_told_with_the_folder(folder, keys, value, told):
    change(folder, *keys, value=value)
    with pytest.raises(ValueError, match=f"saved .*{told}"):
        Segmenter.from_pretrained(folder)


@pytest.mark.parametrize(
    ("part", "name", "value"),
    [
        ("encoder", "depths", [2, 2, 1_000_000, 2]),
        ("encoder", "embed_dim", 16384),
        ("encoder", "window_size", 5000),
        ("decoder", "channels", 4096),
        ("decoder", "pool_sizes", [1] * 100_000),
    ],
)
def test_a_model_far_larger_than_its_weights_is_not_built(folder, part, name, value):
    change(folder, "model", "init_args", part, "init_args", name, value=value)
    with pytest.raises(ValueError, match=r"saved holds settings .* is far larger than its weights of"):
        Segmenter.from_pretrained(folder)
