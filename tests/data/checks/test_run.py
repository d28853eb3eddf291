import time
import warnings
from pathlib import Path

import numpy as np
import pytest
from drawn_files import REAL_DATA, labels, save
from lightning.pytorch.utilities import rank_zero_only

from src.classes import ClassList
from src.data import ADE20K, MaskFolder, Pair, Sample
from src.data.checks import check_files
from src.data.checks.run import FAST_MASKS
from src.data.labels import LabelEncoder
from src.data.pairs import match_pairs
from src.data.source import Source

MASKS = [labels((8, 8), (0, 1))] * 3


def test_errors_stop_a_run_before_its_first_step(drawn):
    wrong = [*MASKS, np.full((8, 8), 9, np.uint8)]
    for check in ("fast", "full"):
        with pytest.raises(ValueError, match=r"got 9 \(64 pixels\) in 1 of the 4 training masks"):
            drawn(wrong, check=check).setup("fit")
    drawn(wrong, check="off").setup("fit")
    for stage in ("validate", "test"):
        with pytest.raises(ValueError, match=r"got 9 \(64 pixels\) in 1 of the 4 scored masks"):
            drawn(wrong).setup(stage)
        drawn(wrong, check="off").setup(stage)
    drawn(wrong).setup("predict")


def test_warnings_are_given_one_by_one_and_a_clean_set_says_nothing(drawn):
    data = drawn([*MASKS, np.full((8, 8), 255, np.uint8)], "sky\nroad\ncar\n", val=[np.full((8, 8), 255, np.uint8)])
    with pytest.warns(UserWarning) as told:
        data.setup("fit")
    texts = [str(warning.message) for warning in told]
    assert len(texts) == 2
    assert "1 of 3 classes (car) never occur" in texts[0]
    assert "no class occurs in the 1 validation mask," in texts[1]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        drawn(MASKS).setup("fit")


def test_every_process_is_stopped_and_one_is_told(drawn, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(rank_zero_only, "rank", 1, raising=False)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        drawn(MASKS, "sky\nroad\ncar\n").setup("fit")
    with pytest.raises(ValueError, match=r"got 1 \("):
        drawn(MASKS, "0 sky\n2 road\n").setup("fit")


def test_notes_are_told_without_a_warning(drawn, monkeypatch: pytest.MonkeyPatch):
    told = []
    monkeypatch.setattr("src.data.datamodule.rank_zero_info", told.append)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        drawn([labels((4, 4), (0, 1))] * (FAST_MASKS + 1), "sky\nroad\ncar\n", val=MASKS).setup("fit")
    (note,) = told
    assert note.startswith("1 of 3 classes (car) do not occur in")


def test_a_sample_may_miss_what_a_full_check_finds(drawn, tmp_path: Path):
    data = drawn([labels((4, 4), (0, 1))] * 3 * FAST_MASKS, val=MASKS)
    data.setup("fit")
    save(tmp_path / "train" / "masks" / "001.png", np.full((4, 4), 9, np.uint8))
    data.setup("fit")
    data.check = "full"
    with pytest.raises(ValueError, match=rf"in 1 of the {3 * FAST_MASKS} training masks: .*001\.png"):
        data.setup("fit")


def test_a_fast_check_ends_however_slow_the_files_are(drawn, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("src.data.checks.run.FAST_SECONDS", 0.1)
    data = drawn(MASKS * 20, val=MASKS)
    read = []

    def read_mask(path: Path) -> np.ndarray:
        read.append(path)
        time.sleep(0.1)
        return labels((8, 8), (0, 1))

    source = Source(read_mask=read_mask, encoder=data.encoder)
    assert check_files({"training": data.pairs("train"), "validation": data.pairs("val")}, [source], data.classes) == []
    assert len(MASKS) < len(read) < 40  # of the 64 that a quick disk would see looked into


def test_each_data_set_of_a_run_has_values_of_its_own(tmp_path: Path):
    classes = ClassList.from_names(["sky", "road"])
    sources = [Source(encoder=LabelEncoder(classes)), Source(encoder=LabelEncoder(classes, mapping={255: 1}))]
    pairs = []
    for index, ids in enumerate([(0, 1), (0, 255)]):
        image = save(tmp_path / f"{index}.png", labels((8, 8, 3), range(256), index))
        pairs.append(Pair(image.name, image, save(tmp_path / f"{index}_mask.png", labels((8, 8), ids)), index))
    assert check_files({"training": pairs, "validation": []}, sources, classes) == []
    swapped = [Pair(pair.name, pair.image, pair.mask, 1 - pair.source) for pair in pairs]
    assert (
        check_files({"training": swapped, "validation": []}, sources, classes) == []
    )  # 255 is ignored by the first, and 1 a class of both
    sources[0] = Source(encoder=LabelEncoder(classes, ignored_ids=[]))
    (finding,) = [
        each
        for each in check_files({"training": swapped, "validation": []}, sources, classes)
        if each.severity == "error"
    ]
    assert "got 255" in finding.message
    assert f"{tmp_path}/1_mask.png; " in finding.message


@pytest.mark.parametrize("full", [False, True])
def test_the_sample_has_no_findings(findings, sample_root: Path, full: bool):
    assert findings(Sample(str(sample_root)), full) == []


@pytest.mark.skipif(not (REAL_DATA / "camvid").is_dir(), reason="the real masks are not beside the checkout")
@pytest.mark.parametrize("full", [False, True])
def test_real_sets_have_no_findings(findings, tmp_path: Path, full: bool):
    (tmp_path / "cells.txt").write_text("0 background\n255 membrane\n")
    streets, cells = REAL_DATA / "camvid", REAL_DATA / "membrane"
    assert findings(MaskFolder(f"{cells}/images", f"{cells}/masks", f"{tmp_path}/cells.txt"), full) == []
    own = {"val_images": f"{streets}/images/val", "val_masks": f"{streets}/masks/val"}
    folders = (f"{streets}/images/train", f"{streets}/masks/train", f"{streets}/classes.txt")
    assert findings(MaskFolder(*folders, **own, ignored_ids=[11]), full) == []


@pytest.mark.skipif(not (REAL_DATA / "ade20k_sample").is_dir(), reason="the real masks are not beside the checkout")
def test_real_rooms_lack_nothing_but_classes():
    root = REAL_DATA / "ade20k_sample"
    first, second = match_pairs(root / "images", root / "annotations")
    data = ADE20K("absent")
    (finding,) = check_files({"training": [first], "validation": [second]}, data.sources(), data.classes)
    assert finding.severity == "warning"
    assert "of 150 classes" in finding.message
