"""Configs that a run saved or that were printed run again, in every subcommand."""

import shutil
from pathlib import Path

import pytest
import yaml
from PIL import Image

from src.cli import SegmentationCLI


@pytest.fixture
def run(checkpoint) -> Path:
    return Path(checkpoint).parent


def test_the_saved_config_of_a_training_run_serves_every_subcommand(run, sample_root):
    config = ["--config", str(run / "config.yaml")]
    again = SegmentationCLI("fit", [*config, "--ckpt_path", str(run), "--trainer.max_steps", "3"])
    assert again.trainer.global_step == 3
    for command in ("validate", "test"):
        scored = SegmentationCLI(command, [*config, "--ckpt_path", str(run)])
        assert Path(scored.trainer.default_root_dir).parent == Path(f"runs/tiny-{command}")
    (saved,) = Path("runs/tiny-validate").glob("*/config.yaml")
    repeated = SegmentationCLI("validate", ["--config", str(saved)])
    assert Path(repeated.trainer.default_root_dir).parent == Path("runs/tiny-validate")


def test_predicting_with_the_config_of_the_run_and_other_images_writes_masks(run, sample_root, capsys):
    shutil.copytree(sample_root / "images" / "validation", "other/a")
    arguments = ["--config", str(run / "config.yaml"), "--ckpt_path", str(run / "best.ckpt")]
    predicted = SegmentationCLI("predict", [*arguments, "--data.images", "other/", "--output", "out"])
    assert type(predicted.datamodule).__name__ == "ImageFolder"
    assert predicted.datamodule.num_workers == 0
    assert predicted.failures == {}
    assert "left out" not in capsys.readouterr().err
    for image in Path("other/a").iterdir():
        with Image.open(image) as picture, Image.open(next(Path("out").rglob(f"{image.stem}.png"))) as mask:
            assert mask.size == picture.size


def test_many_images_follow_one_flag(run, sample_root):
    images = sorted(map(str, (sample_root / "images" / "validation").iterdir()))[:3]
    arguments = ["--ckpt_path", str(run), "--data.images", *images, "--output", "out", "--data.num_workers=0"]
    SegmentationCLI("predict", arguments)
    assert sorted(path.stem for path in Path("out").glob("*.png")) == [Path(image).stem for image in images]


def test_an_image_that_cannot_be_read_is_a_failure_of_its_own(run, sample_root):
    shutil.copytree(sample_root / "images" / "validation", "other")
    cut = sorted(Path("other").iterdir())[0]
    cut.write_bytes(cut.read_bytes()[:300])
    arguments = ["--ckpt_path", str(run), "--data.images", "other", "--output", "out", "--data.num_workers=0"]
    assert [Path(name).name for name in SegmentationCLI("predict", arguments).failures] == [cut.name]
    assert len(list(Path("out").glob("*.png"))) == len(list(Path("other").iterdir())) - 1


@pytest.mark.parametrize("command", ["fit", "validate", "test", "predict"])
def test_what_is_printed_runs_again_and_prints_the_same(command, tiny_config, run, sample_root, printed):
    arguments = ["--config", str(tiny_config), "--trainer.max_steps=3"]
    if command != "fit":
        arguments += ["--ckpt_path", str(run / "best.ckpt")]
    if command == "predict":
        arguments += ["--data.images", str(sample_root / "images"), "--output", "out"]
    first = printed(command, *arguments)
    Path("printed.yaml").write_text(yaml.safe_dump(first))
    assert printed(command, "--config", "printed.yaml") == first
    assert first["trainer"]["max_steps"] == 3
    assert first["name"] == ("tiny" if command == "fit" else f"tiny-{command}")


def test_keys_of_other_subcommands_are_passed_over_and_nothing_else(run, printed):
    config = yaml.safe_load((run / "config.yaml").read_text())
    more = config | {"output": "x", "overlay": True, "overwrite": True, "return_predictions": False, "verbose": True}
    Path("more.yaml").write_text(yaml.safe_dump(more))
    assert printed("fit", "--config", "more.yaml") == printed("fit", "--config", str(run / "config.yaml"))
    told = printed("validate", "--config", "more.yaml", "--ckpt_path", str(run))
    assert told["verbose"] is True
    assert "output" not in told
