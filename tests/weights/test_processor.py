"""The file of transformers that says how images become inputs, in both directions."""

import json

import pytest
import torch

from src.classes import ClassList
from src.inference import load_predictor
from src.preprocessing import Preprocessing
from src.weights.convert import convert
from src.weights.processor import PROCESSOR, processor_config, told_preprocessing
from tests.weights.files import segmenter


def test_the_normalisation_is_in_fractions():
    config = processor_config(Preprocessing(None, (0, 51, 255), (255, 51, 25.5)), "segmentor", 640)
    assert config["image_mean"] == pytest.approx([0, 0.2, 1])
    assert config["image_std"] == pytest.approx([1, 0.2, 0.1])
    assert config["size"] == {"height": 640, "width": 640}
    assert processor_config(Preprocessing(), "classifier", 224)["image_processor_type"] == "ViTImageProcessor"


def test_the_processor_makes_what_our_preprocessing_makes(tmp_path):
    transformers = pytest.importorskip("transformers")
    config = processor_config(Preprocessing(), "segmentor", 32)
    config.pop("image_processor_type")
    pixels = torch.randint(0, 256, (32, 32, 3), dtype=torch.uint8)
    made = transformers.SegformerImageProcessor(**config)(pixels.numpy(), return_tensors="pt").pixel_values[0]
    assert torch.allclose(made, Preprocessing()(pixels), atol=1e-5)


@pytest.mark.parametrize(
    "preprocessing",
    [
        Preprocessing(),
        Preprocessing((256, 64), (10.0, 20.0, 30.0), (5.0, 6.0, 7.0)),
        Preprocessing(None, (1.0,), (2.0,)),
    ],
)
def test_what_is_written_is_read(tmp_path, preprocessing):
    (tmp_path / PROCESSOR).write_text(json.dumps(processor_config(preprocessing, "segmentor", 64)))
    told, note = told_preprocessing(tmp_path / "model.safetensors")
    assert told.mean == pytest.approx(preprocessing.mean, abs=1e-3)
    assert told.std == pytest.approx(preprocessing.std)
    assert told.resize == preprocessing.resize
    assert ("square" in note) == (preprocessing.resize is not None)


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({"do_normalize": False}, Preprocessing((2048, 512), (0.0,) * 3, (255.0,) * 3)),
        ({"size": {"shortest_edge": 640}}, Preprocessing((2560, 640))),
        ({"size": 224}, Preprocessing((896, 224))),
        (
            {"do_rescale": False, "image_mean": [1, 2, 3], "image_std": [4, 5, 6]},
            Preprocessing((2048, 512), (1, 2, 3), (4, 5, 6)),
        ),
    ],
    ids=str,
)
def test_other_files_are_understood(tmp_path, config, expected):
    common = {
        "size": {"height": 512, "width": 512},
        "image_mean": [0.485, 0.456, 0.406],
        "image_std": [0.229, 0.224, 0.225],
    }
    (tmp_path / PROCESSOR).write_text(json.dumps(common | config))
    told, _ = told_preprocessing(tmp_path / "pytorch_model.bin")
    assert told.resize == expected.resize
    assert told.mean == pytest.approx(expected.mean, abs=1e-3)
    assert told.std == pytest.approx(expected.std, rel=1e-6)


@pytest.mark.parametrize("text", ["", "[]", "{", "{}", '{"image_mean": 1, "image_std": 2, "size": 3}', "[" * 100_000])
def test_what_cannot_be_understood_is_passed_over(tmp_path, text):
    (tmp_path / PROCESSOR).write_text(text)
    assert told_preprocessing(tmp_path / "model.safetensors") is None


def test_a_model_that_goes_there_and_back_labels_alike(tmp_path):
    names = ["a", "b", "c"]
    model, classes = segmenter(num_classes=3), ClassList.from_names(names)
    preprocessing = Preprocessing(None, (10.0, 20.0, 30.0), (5.0, 6.0, 7.0))
    model.save_pretrained(tmp_path / "ours", classes, preprocessing)
    convert(tmp_path / "ours", tmp_path / "hub", "transformers")
    done = convert(tmp_path / "hub", tmp_path / "back.ckpt", "toolkit")
    assert any(PROCESSOR in note for note in done.notes)
    picture = torch.randint(0, 256, (40, 50, 3), dtype=torch.uint8)
    first, second = load_predictor(tmp_path / "ours"), load_predictor(tmp_path / "back.ckpt")
    assert second.classes.names == tuple(names)
    assert (first(picture) == second(picture)).float().mean() > 0.999
