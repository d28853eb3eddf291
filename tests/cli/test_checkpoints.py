import os
from pathlib import Path

import pytest

from src.cli.checkpoints import find_checkpoint, find_weights


@pytest.fixture(autouse=True)
def runs():
    """Three runs of two names, the newest last; the newest of all has no best checkpoint."""
    files = [
        "runs/a/1/best.ckpt",
        "runs/a/1/last.ckpt",
        "runs/a/2/best.ckpt",
        "runs/a/2/last.ckpt",
        "runs/b/3/last.ckpt",
    ]
    for time, name in enumerate(files, start=1):
        path = Path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
        os.utime(path, (time, time))


@pytest.mark.parametrize(
    ("told", "subcommand", "name", "found"),
    [
        ("runs/a/1/best.ckpt", "fit", None, "runs/a/1/best.ckpt"),
        ("runs/a/1", "fit", None, "runs/a/1/last.ckpt"),
        ("runs/a/1/", "predict", None, "runs/a/1/best.ckpt"),
        ("runs/a", "fit", "b", "runs/a/2/last.ckpt"),
        ("runs/a", "validate", "b", "runs/a/2/best.ckpt"),
        ("runs/b", "test", None, "runs/b/3/last.ckpt"),
        ("runs", "test", None, "runs/b/3/last.ckpt"),
        ("best", "predict", None, "runs/a/2/best.ckpt"),
        ("last", "predict", None, "runs/b/3/last.ckpt"),
        ("last", "fit", "a", "runs/a/2/last.ckpt"),
    ],
)
def test_a_word_or_a_folder_stands_for_a_checkpoint_of_the_newest_run(told, subcommand, name, found):
    assert find_checkpoint(told, subcommand, "runs", name) == found


@pytest.mark.parametrize("told", ["no.ckpt", "hpc", "registry", "runs/a/3"])
def test_what_does_not_exist_is_answered_with_what_there_is(told):
    with pytest.raises(FileNotFoundError, match=rf"got {told}, which does not exist; there are: runs/a/1/best.ckpt, "):
        find_checkpoint(told, "predict", "runs", None)


def test_a_folder_without_a_checkpoint_is_answered_with_what_there_is():
    Path("runs/b/3/last.ckpt").rename("runs/b/3/best.ckpt")
    with pytest.raises(FileNotFoundError, match=r"got runs/b, and runs/b holds no last.ckpt; there are: "):
        find_checkpoint("runs/b", "fit", "runs", None)
    with pytest.raises(FileNotFoundError, match=r"got best, and empty/a holds no best.ckpt; there is none in empty"):
        find_checkpoint("best", "fit", "empty", "a")


def test_a_name_that_was_told_stands_for_no_run_of_another_name():
    with pytest.raises(FileNotFoundError, match=r"got last, and runs/typo holds no last.ckpt; there are: runs/a/1/"):
        find_checkpoint("last", "fit", "runs", "typo")
    with pytest.raises(FileNotFoundError, match=r"got best, and runs/b holds no best.ckpt"):
        find_checkpoint("best", "validate", "runs", "b")


@pytest.mark.parametrize("told", ["hf:owner/name", "street"])
def test_a_model_that_is_no_checkpoint_is_told_how_it_becomes_one(told, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "street").mkdir()
    (tmp_path / "street" / "config.json").write_text("{}")
    with pytest.raises(FileNotFoundError, match=f"convert_weights {told} model.ckpt --to toolkit` makes one of it"):
        find_checkpoint(told, "predict", "runs", None)


@pytest.mark.parametrize("told", ["swin_tiny_imagenet1k", "some.pth", "folder", "hf:owner/name"])
def test_weights_that_are_no_run_stay_what_they_are(told, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    assert find_weights(told, "runs") == told
