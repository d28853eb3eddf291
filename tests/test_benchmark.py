import os
import subprocess
import sys
from pathlib import Path

import pytest

from src.benchmark import main
from src.measurement import peers

ROOT = Path(__file__).parents[1]
NANO = ["--model", "nano", "--size", "32x48", "--classes", "5", "--threads", "1", "--rounds", "1"]


def test_it_runs_as_a_module(tmp_path):
    environment = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "src.benchmark", *NANO, "--against", "none", "--only", "label_map"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment, cwd=tmp_path)
    assert "label map, 1 x 32x48" in done.stdout
    assert "Traceback" not in done.stderr


def test_a_wrong_command_line_ends_with_2(capsys):
    with pytest.raises(SystemExit) as end:
        main(["--size", "large"])
    assert end.value.code == 2
    assert "--size: must be HxW in pixels, for example 512x512, got large" in capsys.readouterr().err


def test_what_cannot_be_measured_is_said_in_a_line(monkeypatch):
    with pytest.raises(SystemExit, match=r"error: --config must be a YAML file or one of .*, got 'absent\.yaml'"):
        main([*NANO, "--config", "absent.yaml", "--against", "none", "--only", "label_map"])
    monkeypatch.setattr(peers.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(SystemExit, match=r"error: --against smp needs .* pip install segmentation-models-pytorch"):
        main([*NANO, "--against", "smp"])


def test_a_missed_ratio_is_status_1(monkeypatch):
    monkeypatch.setattr("src.benchmark.run", lambda arguments: 1)
    with pytest.raises(SystemExit) as end:
        main([])
    assert end.value.code == 1
    monkeypatch.setattr("src.benchmark.run", lambda arguments: 0)
    assert main([]) is None
