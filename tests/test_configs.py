"""Every YAML under ``configs`` builds what it says."""

import sys
from pathlib import Path

import pytest
import torch
import yaml

from src.cli import SegmentationCLI
from src.cli.command_line import CONFIGS
from src.models import Segmenter

FILES = sorted(path.relative_to(CONFIGS).as_posix() for path in CONFIGS.rglob("*.yaml"))
PARAMETERS = {"ade20k.yaml": 60, "model/small.yaml": 81, "model/base.yaml": 121, "model/large.yaml": 234}


class Built(SegmentationCLI):
    """Stops where a run would begin."""

    def _run_subcommand(self, subcommand: str) -> None:
        pass


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["src"])
    (tmp_path / "classes.txt").write_text("a\nb\n")


def built(name: str) -> SegmentationCLI:
    base = ["--config", "ade20k.yaml"] if name.startswith("model/") else []
    with torch.device("meta"):
        return Built("fit", [*base, "--config", name, "--trainer.accelerator", "cpu"])


@pytest.mark.parametrize("name", FILES)
def test_builds(name):
    cli = built(name)
    assert isinstance(cli.model.model, Segmenter)
    millions = sum(p.numel() for p in cli.model.model.parameters()) / 1e6
    if name in PARAMETERS:
        assert round(millions) == PARAMETERS[name]
    if name == "model/crop640.yaml":
        assert cli.datamodule.crop_size == (640, 640)
        assert cli.model.model.encoder.settings["init_args"]["window_size"] == 12


@pytest.mark.parametrize("name", FILES)
def test_head_says_command_and_what_was_measured(name):
    head = []
    for line in (CONFIGS / name).read_text().splitlines():
        if not line.startswith("#"):
            break
        head.append(line)
    text = "\n".join(head)
    assert f"python -m src.fit --config {name}" in text or f"--config {name}" in text
    assert "not measured" in text or "mIoU" in text


@pytest.mark.parametrize("name", FILES)
def test_holds_no_steps_that_follow_from_others(name):
    config = yaml.safe_load((CONFIGS / name).read_text())
    interval = config.get("trainer", {}).get("val_check_interval", 0.0)
    assert isinstance(interval, float)
    assert 0 <= interval <= 1


def test_ade20k_is_the_published_recipe():
    cli = built("ade20k.yaml")
    task, data = cli.model, cli.datamodule
    assert (task.loss.mean, task.auxiliary_weight, cli.trainer.max_steps) == ("all", 0.4, 160_000)
    recipe = task.optimizer
    assert (recipe.lr, tuple(recipe.betas), recipe.weight_decay, recipe.power) == (6e-5, (0.9, 0.999), 0.01, 1.0)
    assert round(recipe.warmup * 160_000) == 1500
    assert (data.batch_size, data.crop_size, data.preprocessing.resize) == (2, (512, 512), (2048, 512))
    assert data.augmentation.scale_range == (0.5, 2.0)
    decoder = task.model.settings["init_args"]["decoder"]["init_args"]
    assert decoder == {"channels": 512, "pool_sizes": [1, 2, 3, 6], "dropout": 0.1, "norm": "batch"}
    assert Path(cli.config.fit.data.init_args.root).name == "ADEChallengeData2016"
