"""Every YAML under ``configs`` builds what it says."""

import re
import sys
from dataclasses import asdict

import pytest
import torch
import yaml

from src.cli import SegmentationCLI
from src.cli.config_file import CONFIGS
from src.models import Segmenter, SwinTransformerV2
from src.models.swin import SWIN_SIZES
from src.weights.named import NAMED

FILES = sorted(path.relative_to(CONFIGS).as_posix() for path in CONFIGS.rglob("*.yaml"))
PARTS = ("encoder", "decoder", "auxiliary")
PARAMETERS = {"ade20k.yaml": 60, "model/small.yaml": 81, "model/base.yaml": 121, "model/large.yaml": 234}


class Built(SegmentationCLI):
    """Stops where a run would begin."""

    def _run_subcommand(self, subcommand: str) -> None:
        pass


SMALL = [
    "--data.num_workers=0", "--data.batch_size=1", "--data.crop_size=32", "--data.preprocessing.resize=[64,64]",
    "--panels.num_images=0", "--trainer.accelerator=cpu", "--trainer.max_steps=2", "--trainer.val_check_interval=1.0",
    "--trainer.limit_val_batches=1", "--trainer.num_sanity_val_steps=0", "--trainer.enable_checkpointing=false",
    "--model.weights=null", "--trainer.logger=false", "--trainer.enable_progress_bar=false",
    "--trainer.enable_model_summary=false",
]  # fmt: skip
"""The whole model, little of everything else."""


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["src"])
    (tmp_path / "classes.txt").write_text("a\nb\n")


def configs(name: str) -> list[str]:
    base = ["--config", "ade20k.yaml"] if name.startswith("model/") else []
    return [*base, "--config", name]


def built(name: str) -> SegmentationCLI:
    with torch.device("meta"):
        return Built("fit", [*configs(name), "--trainer.accelerator", "cpu"])


@pytest.mark.parametrize("name", FILES)
def test_trains_two_steps(name, sample_root, tmp_path):
    (tmp_path / "classes.txt").write_text("".join(f"{number} class{number}\n" for number in range(1, 9)))
    data = [f"--data.root={sample_root}"]
    if name == "custom_masks.yaml":
        data = [f"--data.{option}={sample_root}/{folder}/training"
                for option, folder in (("images", "images"), ("masks", "annotations"))]  # fmt: skip
        data.append("--data.ignored_ids=[0]")
    trainer = SegmentationCLI("fit", [*configs(name), *data, *SMALL]).trainer
    assert trainer.global_step == 2
    assert torch.isfinite(trainer.callback_metrics["train/loss"])
    assert 0 <= trainer.callback_metrics["val/miou"] <= 1


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
def test_head_says_the_command_and_what_was_measured(name):
    head = "\n".join(line for line in (CONFIGS / name).read_text().splitlines() if line.startswith("#"))
    (command,) = (line for line in head.splitlines() if "python -m src.fit" in line)
    assert f"--config {name}" in command
    assert "not measured" in head or ("minutes" in head and "CPU" in head and "mIoU" in head)


@pytest.mark.parametrize("name", FILES)
def test_lengths_are_fractions_of_the_run(name):
    config = yaml.safe_load((CONFIGS / name).read_text())
    trainer = config.get("trainer", {})
    optimizer = config.get("model", {}).get("init_args", {}).get("optimizer", {}).get("init_args", {})
    for length in (trainer.get("val_check_interval", 0.0), optimizer.get("warmup", 0.0)):
        assert isinstance(length, float)
        assert 0 <= length <= 1
    assert not {"max_epochs", "check_val_every_n_epoch"} & trainer.keys()


def test_ade20k_is_the_published_recipe():
    cli = built("ade20k.yaml")
    task, data = cli.model, cli.datamodule
    assert (task.loss.mean, task.auxiliary_weight, cli.trainer.max_steps) == ("all", 0.4, 160_000)
    assert cli.config.fit.trainer.sync_batchnorm
    recipe = task.optimizer
    assert (recipe.lr, tuple(recipe.betas), recipe.weight_decay, recipe.power) == (6e-5, (0.9, 0.999), 0.01, 1.0)
    assert round(recipe.warmup * 160_000) == 1500
    assert (data.batch_size, data.crop_size) == (2, (512, 512))
    assert asdict(data.preprocessing) == {
        "resize": (2048, 512), "mean": (123.675, 116.28, 103.53), "std": (58.395, 57.12, 57.375)
    }  # fmt: skip
    assert asdict(data.augmentation) == {
        "scale_range": (0.5, 2.0), "max_class_share": 0.75, "crop_tries": 10, "flip": 0.5, "photometric": True
    }  # fmt: skip
    parts = {name: part["init_args"] for name, part in task.model.settings["init_args"].items() if name in PARTS}
    assert parts["decoder"] == {"channels": 512, "pool_sizes": [1, 2, 3, 6], "dropout": 0.1, "norm": "batch"}
    auxiliary = {"level": 2, "channels": 256, "num_convs": 1, "dropout": 0.1, "norm": "batch"}
    assert parts["auxiliary"] == auxiliary
    published = {
        "embed_dim": 96, "depths": [2, 2, 6, 2], "num_heads": [3, 6, 12, 24], "window_size": 7, "drop_path_rate": 0.3,
        "padded_keys": "attend", "shift_covered": True, "absolute_pos_embed": None, "drop_rate": 0.0,
    }  # fmt: skip
    assert {name: parts["encoder"][name] for name in published} == published


@pytest.mark.parametrize("name", FILES)
def test_weights_are_named_ones_of_the_same_size(name):
    text = (CONFIGS / name).read_text()
    weights = yaml.safe_load(text).get("model", {}).get("init_args", {}).get("weights")
    for named in filter(None, [weights, *re.findall(r"swinv?2?_\w+_imagenet\w+", text)]):
        assert named in NAMED, named
    if weights is not None:
        encoder = built(name).model.model.encoder
        size = SWIN_SIZES[weights.split("_")[1]]
        assert (encoder.feature_specs[0].channels, [len(stage.blocks) for stage in encoder.layers]) == (
            size.embed_dim, list(size.depths)
        )  # fmt: skip
        assert isinstance(encoder, SwinTransformerV2) == weights.startswith("swinv2_")
