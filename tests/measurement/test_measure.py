import json
from dataclasses import replace

import pytest

from src.measurement.limits import PEERS
from src.measurement.measure import _with_layout, measure
from src.measurement.options import ROWS, Options
from src.measurement.ours import build_model
from src.measurement.rounds import Rounds

pytest.importorskip("transformers")

OPTIONS = Options(
    model="nano", size=(32, 48), num_classes=5, threads=1, rounds=2, rows=("full_logits", "label_map", "training")
)


def test_training_comes_after_all_that_compares_outputs():
    rows = replace(OPTIONS, rows=tuple(reversed(ROWS))).timed_rows
    assert rows == ("features", "logits", "full_logits", "label_map", "evaluation", "training")


@pytest.fixture(scope="module")
def result():
    said = []
    return measure(OPTIONS, said.append) | {"said": said}


def test_a_result_has_counts_differences_and_rows_in_plain_types(result):
    assert set(result) == {"counts", "differences", "rows", "notes", "options", "said"}
    assert list(result["rows"]) == list(OPTIONS.rows)
    for row in result["rows"].values():
        assert set(row) == {"unit", "ratio", "figures", "ratios", "order", "size", "batch"}
        assert set(row["figures"]) == {"ours, exact", *PEERS}
        assert set(row["ratios"]) == {"ours, exact"}
        assert set(row["ratios"]["ours, exact"][PEERS[1]]) == {"median", "min", "max", "values"}
    assert json.loads(json.dumps(result)) == result


def test_all_work_in_turn(result):
    assert result["rows"]["training"]["order"] == ["ours, exact", *PEERS] * 3
    assert result["rows"]["training"]["batch"] == 2
    assert result["rows"]["label_map"]["batch"] == 1


def test_outputs_are_compared_first(result):
    for row in ("full_logits", "training"):
        for told in result["differences"][row]["ours, exact"].values():
            assert told["kind"] == "relative difference"
            assert told["value"] < 1e-5


def test_the_layout_of_the_peers_is_decided_and_told(result):
    assert result["options"]["layout"] in ("contiguous", "channels_last")
    assert "which memory layout suits the tuned peers" in result["said"]


def test_ours_alone_has_no_ratio_and_another_function_is_said():
    alone = Options(model="nano", size=(32, 48), num_classes=5, threads=1, rounds=1, rows=("label_map",), against=())
    told = measure(alone)
    assert told["rows"]["label_map"]["ratios"] == {"ours, exact": {}}
    assert told["notes"] == []
    others = measure(replace(alone, size=(32, 64), rows=("features",), against=("torchvision",)))
    assert others["notes"] == ["torchvision: another function", "torchvision, tuned: another function"]
    assert others["differences"]["features"] == {}


def test_the_faster_layout_of_a_peer_is_taken(monkeypatch):
    seconds = {"contiguous": 2.0, "channels_last": 1.0}

    def planted(workers, rounds, synchronise=None):
        return Rounds({layout: [seconds[layout]] * rounds for layout in workers})

    monkeypatch.setattr("src.measurement.measure.alternate", planted)
    options = Options(model="nano", size=(32, 48), num_classes=5, threads=1)
    model = build_model(options)
    for faster in seconds:
        seconds.update(dict.fromkeys(seconds, 2.0) | {faster: 1.0})
        assert _with_layout(options, model, lambda text: None).layout == faster
