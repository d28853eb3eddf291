import os
import shutil
import signal
import sys
import warnings
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from lightning.pytorch.utilities.exceptions import MisconfigurationException, SIGTERMException
from PIL import Image

from src.callbacks import PredictionWriter
from src.cli import main
from src.cli.entry import PACKAGE, message_for_user, show_warnings_plainly
from src.models.importing import imported


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--config", "no.yaml"], "error: --config must be a YAML file"),
        (
            ["--config", "sample.yaml", "--trainer.val_check_interval", "9999"],
            "error: `val_check_interval` (9999) must",
        ),
        (["--config", "custom_masks.yaml", "--data.classes", "no.txt"], "error: data.classes must be a text file"),
        (["--config", "sample.yaml", "--data.crop_size", "0"], "error: data.crop_size must be at least 1, got 0"),
    ],
)
def test_what_is_wrong_is_said_in_a_line_without_a_traceback(arguments, said, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["src", *arguments, "--trainer.accelerator=cpu"])
    with pytest.raises(SystemExit) as end:
        main("fit")
    assert end.value.code.startswith(said)  # python prints it and ends with status 1
    assert "\n" not in end.value.code


def test_what_a_worker_says_of_a_file_is_said_in_a_line(tiny_config, sample_root, tmp_path, run_python):
    shutil.copytree(sample_root, tmp_path / "bad")
    path = sorted((tmp_path / "bad" / "annotations" / "validation").iterdir())[0]
    Image.fromarray(np.full_like(np.asarray(Image.open(path)), 77)).save(path)
    flags = ["--data.root", str(tmp_path / "bad"), "--data.num_workers", "1"]
    result = run_python("src.fit", [f"--config={tiny_config}", *flags], check=False)
    assert result.returncode == 1
    assert "Traceback" not in result.stderr
    said = result.stderr.splitlines()[-1]
    assert said.startswith("error: ")
    assert path.name in said
    assert "77" in said


class Killed(torch.utils.data.Dataset):
    """An item that ends the process that reads it."""

    def __len__(self) -> int:
        return 1

    def __getitem__(self, index: int) -> int:
        os.kill(os.getpid(), signal.SIGKILL)
        return index


def test_a_worker_that_was_killed_is_told_with_the_remedy():
    with pytest.raises(RuntimeError) as caught:
        list(torch.utils.data.DataLoader(Killed(), num_workers=1, multiprocessing_context="fork"))
    said = message_for_user(caught.value)
    assert said.startswith("a process that reads images was ended from outside")
    assert "lower data.num_workers" in said
    spawned = RuntimeError("DataLoader worker (pid(s) 6891) exited unexpectedly")
    assert "lower data.num_workers" in message_for_user(spawned)


def test_a_process_that_lost_the_others_points_to_them():
    error = RuntimeError("[../gloo/transport/tcp/pair.cc:547] Connection closed by peer [127.0.0.1]:2\n\ngloo's hints")
    said = message_for_user(error)
    assert said.startswith("another process of this run has ended")
    assert "\n" not in said
    assert message_for_user(RuntimeError("a bug")) is None


def test_the_files_that_were_being_read_stand_behind_the_error():
    error = ValueError(
        "Caught ValueError in DataLoader worker process 0.\nOriginal Traceback (most recent call last):\n"
        f'  File "{PACKAGE}/x.py"\nValueError: it is bad\nwhile reading a.png and b.png\n'
    )
    assert message_for_user(error) == "it is bad (while reading a.png and b.png)"
    with pytest.raises(ValueError, match="got an empty name") as caught:
        PredictionWriter("")
    caught.value.add_note("while reading c.png")
    assert message_for_user(caught.value).endswith("folder. (while reading c.png)")


def test_warnings_come_without_a_line_of_code(monkeypatch):
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        monkeypatch.setattr(warnings, "formatwarning", None)
        show_warnings_plainly()
    assert warnings.formatwarning(UserWarning("masks are odd"), UserWarning, "file.py", 3) == "warning: masks are odd\n"


def test_another_package_called_src_is_named(tmp_path, run_python):
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "__init__.py").touch()
    result = run_python("src", ["--help"], extra_path=tmp_path)
    assert f"the other one in {tmp_path} is not used" in result.stderr
    assert "usage" in result.stdout


def test_a_run_that_is_told_to_end_does_not_look_finished(monkeypatch):
    def ended(*args, **kwargs):
        raise SIGTERMException

    assert status(monkeypatch, ended) == 143


def status(monkeypatch, cli):
    """How a process ends with ``cli`` in place of ours."""
    monkeypatch.setattr("src.cli.entry.SegmentationCLI", cli)
    with pytest.raises(SystemExit) as end:
        main("fit")
    return end.value.code


def test_a_wrong_command_line_ends_with_status_2_and_a_line(capsys):
    with pytest.raises(SystemExit) as end:
        main("fit")
    assert end.value.code == 2
    assert capsys.readouterr().err == "error: --config must be given to fit, for example `python -m src.fit --config " \
        "sample.yaml`.\n"  # fmt: skip


def test_images_that_could_not_be_predicted_end_a_job_with_status_1(monkeypatch):
    assert status(monkeypatch, lambda subcommand: SimpleNamespace(failures={"a.jpg": "cut"})) == 1
    monkeypatch.setattr("src.cli.entry.SegmentationCLI", lambda subcommand: SimpleNamespace(failures={}))
    main("predict")


def test_an_error_of_the_program_keeps_its_traceback(monkeypatch):
    def broken(*args, **kwargs):
        raise ValueError("of nobody's making")

    monkeypatch.setattr("src.cli.entry.SegmentationCLI", broken)
    with pytest.raises(ValueError, match="of nobody's making"):
        main("fit")


def test_what_the_trainer_says_of_its_settings_is_an_answer_for_a_user():
    assert message_for_user(MisconfigurationException(" no gpu ")) == "no gpu"
    assert message_for_user(RuntimeError("x")) is None
    wrapped = RuntimeError("x")
    wrapped.__cause__ = MisconfigurationException("y")
    assert message_for_user(wrapped) == "y"


def test_a_part_whose_package_is_missing_is_said_in_a_line():
    with pytest.raises(ImportError) as error:
        imported("nowhere.Part")
    assert "nowhere.Part" in message_for_user(error.value)
