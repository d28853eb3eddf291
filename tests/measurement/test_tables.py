import io
import json

import pytest
from rich.console import Console

from src.measurement.limits import LIMITS, Verdict
from src.measurement.tables import (
    HEAD,
    count_lines,
    difference_lines,
    differing,
    markdown,
    rich_table,
    row_lines,
    save,
    verdict_lines,
)


def figure(value):
    return {"median": value, "min": value / 2, "max": value * 2, "values": [value]}


def result(difference=1e-6, precision="float32"):
    times = {
        "unit": "s",
        "figures": {"ours, exact": figure(1.0), "ours, fast": figure(0.5), "transformers": figure(2.0)},
        "ratios": {"ours, exact": {"transformers": figure(2.0)}, "ours, fast": {"transformers": figure(4.0)}},
        "size": [32, 48],
        "batch": 1,
    }
    one = {"figures": {"ours, exact": {"median": 800.0}, "transformers": {"median": 2000.0}}}
    one["ratios"] = {"ours, exact": {"transformers": {"median": 0.4}}}
    memory = {"unit": "MiB", **one, "live": one, "size": [32, 48], "batch": 2}
    told = {"row": "logits", "kind": "relative difference", "value": difference}
    return {
        "rows": {"label_map": times, "training_memory": memory},
        "differences": {"logits": {"ours, exact": {"transformers": told}}},
        "options": {"precision": precision},
    }


def test_lines_have_figures_and_ratios():
    lines = row_lines(result())
    assert lines[0] == ("label map, 1 x 32x48", "ours, exact", "1,000.0 ms", "500.0 ms .. 2,000.0 ms", "", "")
    assert lines[2][1:3] == ("transformers", "2,000.0 ms")
    assert lines[2][4:] == ("2.00 (exact)\n4.00 (fast)", "1.00 .. 4.00\n2.00 .. 8.00")
    assert lines[4][1:] == ("transformers", "2,000 MiB", "", "0.40", "")
    assert lines[5][0] == "memory of a training step, 2 x 32x48, tensors alone"
    assert {len(line) for line in lines} == {len(HEAD)}


def test_counts_are_in_millions_and_billions():
    counts = {
        "parameters": 59_943_000,
        "multiply-adds, plain form": 236_900_000_000,
        "multiply-adds, as computed": None,
    }
    assert count_lines(counts) == [
        ("parameters", "59.94 M"),
        ("multiply-adds, plain form", "236.9 G"),
        ("multiply-adds, as computed", "not known for this model"),
    ]


def test_a_difference_beyond_rounding_is_said():
    assert difference_lines(result())[0][3] == "relative difference 1.00e-06"
    assert differing(result()) == []
    (text,) = differing(result(difference=1e-3))
    assert text.startswith("ours, exact and transformers differ in logits at stride 4 by 1.00e-03")
    assert differing(result(difference=1e-3, precision="bfloat16")) == []
    assert len(differing(result(difference=float("nan")))) == 1


def test_verdicts_have_limit_and_goal():
    (line,) = verdict_lines([Verdict(LIMITS[0], 1.5)])
    assert line == ("label map, tiny", "ours, exact", "1.50", "at least 1.4", "1.8", "held")
    (line,) = verdict_lines([Verdict(LIMITS[4], None)])
    assert line[2:] == ("", "at most 0.6", "0.4", "not measured")


def test_tables_print_every_cell():
    console = Console(width=200, record=True, file=io.StringIO())
    console.print(rich_table(HEAD, row_lines(result())))
    text = console.export_text()
    assert "memory of a training step, 2 x 32x48" in text
    assert "4.00 (fast)" in text
    lines = markdown(HEAD, row_lines(result())).splitlines()
    assert lines[1] == "| --- | --- | --- | --- | --- | --- |"
    assert "2.00 (exact)<br>4.00 (fast)" in lines[4]


def test_a_file_is_written_whole_or_not_at_all(tmp_path):
    path = tmp_path / "new" / "a.json"
    save(result(), path)
    assert json.loads(path.read_text()) == result()
    assert [entry.name for entry in path.parent.iterdir()] == ["a.json"]
    with pytest.raises(TypeError):
        save({"a": object()}, path)
    assert json.loads(path.read_text()) == result()
    with pytest.raises(ValueError, match="--json must be a file that can be written, got"):
        save(result(), path / "below.json")
