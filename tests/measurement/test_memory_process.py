import sys
from dataclasses import replace

import pytest

from src.measurement import measure as measuring
from src.measurement.measure import measure
from src.measurement.memory import MemoryUse
from src.measurement.memory_process import memory_apart
from src.measurement.options import Options

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="memory is read from Linux's /proc")
OPTIONS = Options(model="nano", size=(32, 48), num_classes=50, threads=1, against=())


def test_memory_grows_with_the_image():
    small = memory_apart("ours, exact", "label_map_memory", replace(OPTIONS, size=(256, 256)))
    large = memory_apart("ours, exact", "label_map_memory", replace(OPTIONS, size=(1024, 1024)))
    assert small.source in ("kernel", "sampled")
    assert 0 < small.live < large.live <= 1.2 * large.peak


def test_training_needs_gradients_and_not_the_optimizer_state():
    use = memory_apart("ours, exact", "training_memory", OPTIONS)
    assert use.live > 0


def test_a_process_that_fails_is_said():
    with pytest.raises(ValueError, match=r"the memory of ours, exact .* could not be measured: .*absent.yaml"):
        memory_apart("ours, exact", "label_map_memory", Options(configs=("absent.yaml",)))


def test_one_image_of_the_memory_size_is_labelled(monkeypatch):
    asked = []
    monkeypatch.setattr(
        measuring, "memory_apart", lambda *words: asked.append(words) or MemoryUse(2**20, 2**19, "kernel")
    )
    options = replace(OPTIONS, rows=("label_map_memory",), memory_size=(80, 64), batch=3)
    told = measure(options)["rows"]["label_map_memory"]
    assert (told["size"], told["batch"]) == ([80, 64], 1)
    assert [(name, row, sized.size, sized.batch) for name, row, sized in asked] == [
        ("ours, exact", "label_map_memory", (80, 64), 1)
    ]


def test_rows_of_memory_have_both_figures_and_ratios():
    pytest.importorskip("transformers")
    told = measure(Options(
        model="nano", size=(32, 48), num_classes=5, threads=1, rows=("training_memory",), layout="contiguous",
    ))["rows"]["training_memory"]  # fmt: skip
    assert set(told) == {"unit", "ratio", "figures", "ratios", "live", "size", "batch"}
    ours, theirs = (told["figures"][name]["median"] for name in ("ours, exact", "transformers"))
    assert told["ratios"]["ours, exact"]["transformers"]["median"] == pytest.approx(ours / theirs)
    assert set(told["live"]["ratios"]["ours, exact"]) == {"transformers", "transformers, tuned"}
