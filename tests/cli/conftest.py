"""Runs of the command line in a working directory of their own."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from src.cli import SegmentationCLI

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["src"])
    return tmp_path


@pytest.fixture
def fit(tiny_config):
    return lambda *arguments: SegmentationCLI("fit", ["--config", str(tiny_config), *arguments])


@pytest.fixture
def checkpoint(fit) -> str:
    return fit().trainer.checkpoint_callback.best_model_path


@pytest.fixture
def run_python():
    """Runs a module in a process of its own."""

    def run(
        module: str, arguments: list[str], check: bool = True, extra_path: Path = ROOT
    ) -> subprocess.CompletedProcess[str]:
        environment = os.environ | {"PYTHONPATH": f"{ROOT}{os.pathsep}{extra_path}"}
        command = [sys.executable, "-P", "-m", module, *arguments]
        return subprocess.run(command, check=check, timeout=120, capture_output=True, text=True, env=environment)

    return run


@pytest.fixture
def printed(capsys):
    """What ``--print_config`` prints, as a dict."""

    def run(subcommand: str, *arguments: str) -> dict:
        with pytest.raises(SystemExit) as end:
            SegmentationCLI(subcommand, [*arguments, "--print_config"])
        assert end.value.code == 0
        return yaml.safe_load(capsys.readouterr().out)

    return run
