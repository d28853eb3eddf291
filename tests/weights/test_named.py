import csv
import re

import pytest

from src.models.swin import SWIN_SIZES
from src.weights.layouts import LAYOUTS
from src.weights.named import NAMED, NAMED_FILE, find_named, table_lines

ROWS = list(csv.DictReader(NAMED_FILE.open(encoding="utf-8", newline="")))
ADE20K = {"tiny": 44.51, "small": 47.64, "base": 48.13}


def test_names_and_sources_are_unique():
    for key in ("name", "source"):
        values = [row[key] for row in ROWS]
        assert len(set(values)) == len(values) == len(NAMED) > 50


@pytest.mark.parametrize("name", list(NAMED))
def test_a_line_is_well_formed(name):
    one = NAMED[name]
    assert re.fullmatch(r"[a-z0-9_]+", name)
    assert re.fullmatch(r"https://\S+\.(pth|safetensors)|hf:[\w-]+/[\w.-]+", one.source)
    assert one.layout in {layout.name for layout in LAYOUTS}
    assert re.fullmatch(rf"(upernet_swin|swin|swinv2)_({'|'.join(SWIN_SIZES)})_\w+", name)
    assert one.metric in ("", "top1", "miou")
    assert (one.score is None) == (one.metric == "")
    assert one.score is None or 40 < one.score < 90
    assert (one.metric == "miou") <= (one.trained_on[-1:] == ("ade20k",))
    assert (one.metric == "top1") <= (one.trained_on[-1:] == ("imagenet1k",))
    assert one.licence in ("", "mit")
    assert one.seen


@pytest.mark.parametrize("name", list(NAMED))
def test_what_a_file_name_says_is_what_the_table_says(name):
    one = NAMED[name]
    if told := re.search(r"window(\d+)(?:to(\d+))?_(\d+)(?:to(\d+))?", one.source):
        assert one.window == int(told[2] or told[1])
        assert one.image_size == int(told[4] or told[3])
    if told := re.search(r"swin(v2)?_(tiny|small|base|large)", one.source):
        assert f"swin{told[1] or ''}_{told[2]}_" in name
    if "_22k" in one.source:
        assert one.trained_on[0] == "imagenet22k"
        assert one.trained_on == ("imagenet22k", "imagenet1k") or "22kto1k" not in one.source


def test_the_scores_are_those_of_the_recipe():
    assert {size: NAMED[f"upernet_swin_{size}_ade20k"].score for size in ADE20K} == ADE20K


def test_the_lines_of_torchvision_are_torchvisions():
    from torchvision.models import swin_transformer

    for row in NAMED.values():
        if row.layout == "torchvision":
            swin, size, *_ = row.name.split("_")
            published = getattr(swin_transformer, f"Swin_{'V2_' if swin == 'swinv2' else ''}{size[0].upper()}_Weights")
            assert published.DEFAULT.url == row.source
            assert published.DEFAULT.meta["_metrics"]["ImageNet-1K"]["acc@1"] == row.score


def test_the_lines_of_microsoft_are_those_that_timm_took():
    timm = pytest.importorskip("timm")
    taken = {}
    for pretrained in timm.list_pretrained("swin*"):
        config = timm.get_pretrained_cfg(pretrained)
        taken[config.url] = config
    for row in NAMED.values():
        if row.layout == "microsoft":
            assert row.source in taken
            assert taken[row.source].input_size == (3, row.image_size, row.image_size)
            assert taken[row.source].license == row.licence


def test_a_name_is_found_and_no_other():
    assert find_named("swin_tiny_imagenet1k").source.endswith("swin_tiny_patch4_window7_224.pth")
    assert find_named("swin_tiny") is None
    assert find_named("") is None


def test_the_table_shows_every_name_and_fits_a_screen():
    lines = table_lines()
    assert len(lines) == len(NAMED) + 1
    assert max(map(len, lines)) <= 120
    assert all(line.split()[0] == name for line, name in zip(lines[1:], NAMED, strict=True))
    assert any(line.split()[:4] == ["upernet_swin_tiny_ade20k", "official", "7", "512"] for line in lines)
    assert any("miou 44.51" in line for line in lines)
