"""A mixture goes through the command line as any data set does."""

import sys
from pathlib import Path

import numpy as np
import pytest
import yaml
from drawn_files import labels, save, texture
from PIL import Image

from src.cli import SegmentationCLI
from src.data import MaskFolder
from src.inference import load_predictor


def part(name: str, classes: str, ids: list[int]) -> dict:
    for index in range(5):
        save(Path(name, "images", f"{index}.png"), texture((40, 50), index))
        save(Path(name, "masks", f"{index}.png"), labels((40, 50), ids, index))
    Path(name, "classes.txt").write_text(classes)
    folders = {"images": f"{name}/images", "masks": f"{name}/masks", "classes": f"{name}/classes.txt"}
    return {"class_path": "src.data.MaskFolder", "init_args": folders}


@pytest.fixture
def config(tiny_config, tmp_path, monkeypatch) -> str:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["src"])
    Path("classes.txt").write_text("7 vehicle\n9 grass\n")
    renamed = {"car": "vehicle", "truck": "vehicle", "sky": None}
    parts = {
        "town": {"data": part("town", "0 car\n1 truck\n2 sky\n30 grass\n", [0, 1, 2, 30]), "renamed": renamed},
        "field": {"data": part("field", "0 grass\n1 vehicle\n", [0, 1]), "weight": 1.0},
    }
    parts["town"]["weight"] = 2.0
    arguments = {"classes": "classes.txt", "parts": parts, "batch_size": 2, "crop_size": 32, "num_workers": 0}
    settings = yaml.safe_load(tiny_config.read_text())
    settings["data"] = {"class_path": "src.data.Mixture", "init_args": arguments}
    settings["trainer"] |= {"limit_val_batches": 1.0, "limit_test_batches": 1.0}
    Path("mixed.yaml").write_text(yaml.safe_dump(settings))
    return "mixed.yaml"


def test_a_mixture_trains_scores_and_predicts_and_its_saved_config_runs_again(config):
    first = SegmentationCLI("fit", ["--config", config])
    run = Path(first.trainer.log_dir)
    again = SegmentationCLI("fit", ["--config", str(run / "config.yaml")])
    assert again.trainer.callback_metrics == first.trainer.callback_metrics
    assert isinstance(first.datamodule.parts["town"].data, MaskFolder)
    checkpoint = ["--ckpt_path", str(run / "last.ckpt")]
    SegmentationCLI("validate", ["--config", config, *checkpoint])
    SegmentationCLI("predict", ["--config", config, *checkpoint, "--output", "both"])
    SegmentationCLI("predict", [*checkpoint, "--data.images", "town/images", "--output", "one"])
    predicted = sorted(Path("both").rglob("*.png"))
    assert [path.parts[1] for path in predicted] == ["field", "town"]
    predictor = load_predictor(run / "last.ckpt")
    ids = np.array([7, 9])
    for path in predicted:
        expected = ids[predictor(Path(path.parts[1], "images", path.name)).numpy()]
        assert np.array_equal(np.asarray(Image.open(path)), expected)
    assert np.asarray(Image.open("one/0.png")).max() <= 9


def test_flags_reach_into_a_part(config):
    words = ["--config", config, "--data.parts.town.weight", "5.0", "--data.parts.field.validate", "false"]
    data = SegmentationCLI("fit", words).datamodule
    assert (data.parts["town"].weight, data.parts["town"].renamed["sky"]) == (5.0, None)
    assert {pair.name.partition("/")[0] for pair in data.pairs("val")} == {"town"}
