from pathlib import Path

import pytest

from src.cli.command_line import CONFIGS, arranged, checkpoint_path, find_config


def test_configs_are_found_as_given_first_then_beside_the_package(tmp_path):
    assert find_config("sample.yaml") == CONFIGS / "sample.yaml"
    assert find_config("model/small.yaml") == CONFIGS / "model" / "small.yaml"
    (tmp_path / "sample.yaml").write_text("{}")
    assert find_config("sample.yaml") == Path("sample.yaml")
    with pytest.raises(FileNotFoundError, match=r"got 'no\.yaml'; there are: .*ade20k\.yaml.*model/small\.yaml"):
        find_config("no.yaml")


def test_the_subcommand_and_configs_come_first():
    config = str(CONFIGS / "sample.yaml")
    words = ["fit", "--a", "1", "--config", "sample.yaml", "--b=2", "-c", "sample.yaml", "--config=sample.yaml"]
    assert arranged(words) == ["fit", *[f"--config={config}"] * 3, "--a", "1", "--b=2"]
    assert arranged(["--help"]) == ["--help"]


def test_the_checkpoint_is_the_last_that_is_named(tmp_path):
    (tmp_path / "a.yaml").write_text("ckpt_path: a.ckpt")
    (tmp_path / "b.yaml").write_text("ckpt_path: null")
    assert checkpoint_path(["predict", "--config=a.yaml", "--config=b.yaml"]) == "a.ckpt"
    assert checkpoint_path(["predict", "--config=a.yaml", "--ckpt_path", "b.ckpt"]) == "b.ckpt"
    assert checkpoint_path(["predict", "--ckpt_path=c.ckpt"]) == "c.ckpt"
    assert checkpoint_path(["fit"]) is None
