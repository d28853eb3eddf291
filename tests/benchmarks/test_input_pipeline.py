"""The script for the input pipeline on small files: every part runs, no time is judged."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from drawn_files import mask_folders

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "input_pipeline.py"


def script(path: Path, *arguments: str) -> subprocess.CompletedProcess:
    plain = ("--samples", "3", "--rounds", "1", "--json", str(path))
    return subprocess.run(
        [sys.executable, "-W", "ignore", str(SCRIPT), *plain, *arguments], capture_output=True, text=True, timeout=120
    )


@pytest.mark.parametrize("draft", ["--draft", "--no-draft"])
def test_drawn_photographs_are_measured_step_by_step(tmp_path: Path, draft: str):
    drawn = ("--draw", "2", "--size", "60x90", "--crop", "32", "--resize", "64x32", "--workers", "1", draft)
    done = script(tmp_path / "told.json", *drawn, "--step-seconds", "8")
    assert done.returncode == 0, done.stderr
    told = json.loads((tmp_path / "told.json").read_text())
    assert told["recipe"]["draft"] is (draft == "--draft")
    steps = {"read image", "read mask", "class indices", "scale", "crop", "flip", "colours", "normalise", "pad"}
    assert told["steps_s"].keys() == steps | {"collate", "the rest"}
    assert all(seconds > 0 for seconds in (*told["steps_s"].values(), told["sample_s"], told["plain_decode_s"]))
    assert told["loader_images_per_s"].keys() == {"1"}
    assert told["share_of_plain_decode"] == pytest.approx(told["plain_decode_s"] / told["sample_s"])
    assert told["times_a_training_step"] == pytest.approx(4 / told["sample_s"])
    assert told["cores_for_consumer"] == pytest.approx(100 * told["sample_s"])
    for word in ("plain decode", "colours", "1 workers", "cores for consumer"):
        assert word in done.stdout


def test_a_config_gives_the_recipe_and_options_win(tmp_path: Path):
    folders = mask_folders(tmp_path, [(40, 50)] * 2)
    own = ("--images", folders["images"], "--masks", folders["masks"], "--workers")
    done = script(tmp_path / "told.json", "--config", "ade20k.yaml", "--crop", "24", *own)
    assert done.returncode == 0, done.stderr
    recipe = json.loads((tmp_path / "told.json").read_text())["recipe"]
    assert (recipe["crop"], recipe["resize"], recipe["draft"]) == ([24, 24], [2048, 512], False)


def test_files_must_be_named():
    done = subprocess.run([sys.executable, "-W", "ignore", str(SCRIPT)], capture_output=True, text=True, timeout=120)
    assert done.returncode == 1
    assert "--images and --masks must be given together" in done.stderr
