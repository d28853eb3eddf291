"""The script of the README's tables, with planted runs in the place of real ones and with one real one."""

import importlib.util
import json
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def table():
    spec = importlib.util.spec_from_file_location("benchmarks_table", ROOT / "benchmarks" / "table.py")
    module = importlib.util.module_from_spec(spec)
    before = list(sys.path)
    spec.loader.exec_module(module)
    sys.path[:] = before
    return module


def test_each_part_is_a_run_of_its_own_and_a_failure_is_said(table, monkeypatch, tmp_path):
    asked = []
    monkeypatch.setattr(table, "one_run", lambda words: asked.append(words) or "no memory left")
    assert table.main(["--only", "large,tiny", "--numerics", "exact", "--results", str(tmp_path), "--rounds", "3"]) == 1
    assert asked == [[*table.PARTS[part], "--numerics", "exact", "--rounds", "3"] for part in ("tiny", "large")]
    (path,) = tmp_path.glob("*.md")
    assert "- Swin-L: not measured (no memory left)" in path.read_text()
    assert json.loads(path.with_suffix(".json").read_text())["failed"]["tiny"] == "no memory left"


def test_a_part_that_is_not_there_is_refused(table, capsys):
    with pytest.raises(SystemExit) as end:
        table.main(["--only", "huge"])
    assert end.value.code == 2
    assert "must be of tiny, others, small, base, large, got huge" in capsys.readouterr().err


def test_a_real_run_gives_machine_command_and_rows(table, monkeypatch, tmp_path):
    monkeypatch.setitem(table.PARTS, "tiny", ["--model", "nano", "--against", "none", "--only", "label_map"])
    words = ["--only", "tiny", "--machine", "Two Cores!", "--numerics", "exact", "--results", str(tmp_path)]
    assert table.main([*words, "--size", "32x48", "--rounds", "1", "--threads", "1", "--classes", "5"]) == 0
    (path,) = tmp_path.glob("*-two-cores.md")
    text = path.read_text()
    assert "`python -m src.benchmark --model nano --against none --only label_map --numerics exact" in text
    assert "| label map, 1 x 32x48 | ours, exact |" in text
    assert "- machine: " in text
    assert set(json.loads(path.with_suffix(".json").read_text())) == {"parts", "failed", "minutes"}


def test_a_run_that_fails_says_its_last_word(table):
    told = table.one_run(["--config", "absent.yaml", "--against", "none", "--threads", "1"])
    assert isinstance(told, str)
    assert "absent.yaml" in told
