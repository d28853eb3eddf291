import json

import pytest

from src.measurement import command
from src.measurement.command import run
from src.measurement.limits import LIMITS, PEERS
from src.measurement.options import Options

NANO = ("--model", "nano", "--size", "32x48", "--classes", "5", "--threads", "1", "--rounds", "1")


def test_tables_are_printed_and_everything_is_saved(tmp_path, capsys):
    pytest.importorskip("transformers")
    words = [*NANO, "--only", "full_logits,label_map", "--json", str(tmp_path / "a.json")]
    assert run(words) == 0
    printed = capsys.readouterr()
    for text in ("multiply-adds, plain form", "transformers, tuned", "relative difference", "label map, 1 x 32x48"):
        assert text in printed.out
    assert "counting" in printed.err
    told = json.loads((tmp_path / "a.json").read_text())
    assert {"date", "command", "machine", "counts", "differences", "rows", "notes", "options"} <= set(told)
    assert told["command"] == " ".join(["python -m src.benchmark", *words])


@pytest.mark.parametrize(("rows", "title"), [("label_map", "label map, forward"), ("training", "training step, forw")])
def test_a_profile_tells_parts_and_operators(rows, title, tmp_path, capsys):
    assert run([*NANO, "--against", "none", "--profile", "--only", rows, "--json", str(tmp_path / "p.json")]) == 0
    printed = capsys.readouterr().out
    assert title in printed
    assert "decoder, the rest" in printed
    assert "aten::" in printed
    assert ("auxiliary head" in printed) == (rows == "training")
    assert set(json.loads((tmp_path / "p.json").read_text())["profile"]) == {"parts", "operators"}


@pytest.fixture
def planted(monkeypatch):
    """Measurements of every limit, each at its goal, in the place of real ones."""
    asked: list[Options] = []
    ratios = {(limit.model, limit.row, limit.ours): limit.goal for limit in LIMITS}
    difference = {"value": 1e-7}

    def planted_measure(options, say):
        asked.append(options)
        rows = {}
        for row in options.rows:
            figures = {name: {"median": 1.0} for name in ("ours, exact", "ours, fast", *PEERS)}
            found = {
                ours: value for (model, name, ours), value in ratios.items() if (model, name) == (options.model, row)
            }
            rows[row] = {
                "unit": "s", "figures": figures, "size": [512, 512], "batch": 1,
                "ratios": {ours: {peer: {"median": value} for peer in PEERS} for ours, value in found.items()},
            }  # fmt: skip
        told = {"row": "logits", "kind": "relative difference", **difference}
        differences = {"logits": {"ours, exact": {PEERS[1]: told}}}
        return {"counts": {}, "differences": differences, "rows": rows, "notes": [], "options": options.to_dict()}

    monkeypatch.setattr(command, "measure", planted_measure)
    return asked, ratios, difference


def test_a_check_measures_every_limit_and_holds(planted, tmp_path, capsys):
    asked, _, _ = planted
    assert run(["--check", "--rounds", "3", "--json", str(tmp_path / "c.json")]) == 0
    assert {options.model for options in asked} == {"tiny", "small", "base", "large"}
    assert {options.rounds for options in asked} == {3}
    assert {options.size for options in asked} == {(512, 512)}
    told = json.loads((tmp_path / "c.json").read_text())
    assert [verdict["verdict"] for verdict in told["verdicts"]] == ["goal reached"] * len(LIMITS)
    assert "at most 0.6" in capsys.readouterr().out


@pytest.mark.parametrize("limit", [LIMITS[0], LIMITS[4], LIMITS[8]], ids=str)
def test_a_check_fails_where_one_limit_is_missed(planted, limit, capsys):
    planted[1][limit.model, limit.row, limit.ours] = limit.limit * (0.9 if limit.at_least else 1.1)
    assert run(["--check"]) == 1
    assert "missed" in capsys.readouterr().out


def test_a_check_fails_where_outputs_differ(planted, capsys):
    planted[2]["value"] = 1e-2
    assert run(["--check"]) == 1
    assert "differ in logits at stride 4" in capsys.readouterr().out


def test_a_check_fails_where_labels_differ(planted, capsys):
    planted[2].update(kind="same labels", value=0.5)
    assert run(["--check"]) == 1
    assert "give the same labels in logits at stride 4 on 50.00 % of pixels, less than 98 %" in " ".join(
        capsys.readouterr().out.split()
    )


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--check", "--size", "64x64", "--precision", "bfloat16"], "--check must stand without --size, --precision"),
        (["--check", "--profile"], "--check must stand without --profile"),
        (["--profile", "--only", "logits"], "--profile must go with --only label_map or --only training, got logits"),
        (["--profile", "--only", "label_map", "--compile"], "--profile must go without --compile"),
        (["--json", "/"], "--json must be a file that can be written, got /"),
        (["--json", "/proc/nowhere/x.json"], "--json must be a file that can be written, got /proc/nowhere/x.json"),
    ],
)
def test_what_contradicts_is_refused_before_anything_is_measured(planted, flags, message):
    with pytest.raises(ValueError, match=message):
        run(flags)
    assert not planted[0]
