"""The script for a GPU, on a CPU with a model of no size: every part runs, no time is judged."""

import importlib
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

pytest.importorskip("transformers")

ROOT = Path(__file__).parents[2]


def script(*arguments: str) -> subprocess.CompletedProcess:
    return subprocess.run(
        ["bash", str(ROOT / "benchmarks" / "gpu.sh"), *arguments],
        env=os.environ | {"PYTHON": sys.executable, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=280,
    )


def on_cpu(path: Path, *arguments: str) -> subprocess.CompletedProcess:
    plain = ("--device", "cpu", "--size", "32", "--rounds", "1", "--model", "nano", "--no-compile")
    return script(*plain, "--batch", "1", "--json", str(path), *arguments)


def test_the_whole_path_runs_on_a_cpu(tmp_path: Path):
    done = on_cpu(tmp_path / "a" / "gpu.json", "--precision", "float32", "bf16")
    assert done.returncode == 0, done.stdout + done.stderr
    told = json.loads((tmp_path / "a" / "gpu.json").read_text())
    cases = [(each["case"]["precision"], each["case"]["work"], each["case"]["batch"]) for each in told["cases"]]
    assert cases == [(p, *work) for p in ("bf16", "float32") for work in (("labels", 1), ("training", 2))]
    for each in told["cases"]:
        assert {"transformers", "ours", "ours fast"} <= each["ms"].keys()
        assert each["ms"].keys() == each["ratio"].keys() == each["peak_mib"].keys()
        assert each["ratio"]["transformers"] == 1
        assert all(milliseconds > 0 for milliseconds in each["ms"].values())
        if each["case"]["precision"] == "float32":
            assert max(each["difference"].values()) < 1e-3
    assert {error["dtype"] for error in told["attention"]} == {"torch.float16", "torch.bfloat16"}
    assert all(0 < error["error"] < 0.03 and error["fits"] for error in told["attention"])
    for word in ("nano", "shifted windows", "training", "bf16", "ms"):
        assert word in done.stdout


def test_what_does_not_fit_the_budget_is_skipped_and_said_so(tmp_path: Path):
    done = on_cpu(tmp_path / "gpu.json", "--precision", "float32", "--budget", "0")
    assert done.returncode == 0, done.stdout + done.stderr
    assert all("skipped" in each for each in json.loads((tmp_path / "gpu.json").read_text())["cases"])
    assert done.stdout.count("skipped: ") == 2


def test_a_case_that_takes_too_long_is_stopped(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    gpu = importlib.import_module("gpu")

    def endless(*_):
        while True:
            time.sleep(0.01)

    monkeypatch.setattr(gpu, "measured", endless)
    case = gpu.Case("nano", "float32", True, "labels", 1)
    with gpu.limited(0.2):
        told = gpu.tried(case, None, None, torch.device("cpu"), None)
    assert told == {"case": case._asdict(), "skipped": "stopped after 0 s"}
    with gpu.limited(0.2):
        pass
    time.sleep(0.4)  # nothing comes after


@pytest.mark.skipif(torch.cuda.is_available(), reason="a GPU is here")
def test_without_a_gpu_one_line_says_so():
    done = script()
    assert done.returncode == 1
    assert done.stdout == "no GPU is here: torch.cuda.is_available() is false; nothing was measured\n"
