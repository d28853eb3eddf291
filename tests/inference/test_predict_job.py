import json
import os
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch

from src.classes import ClassList
from src.inference.predict_job import PredictJob, classes_text, fingerprint, mask_names

WHOLE = b"IEND\xaeB`\x82"
CLASSES = ClassList(("a", "b"), ((1, 2, 3), (4, 5, 6)))


@pytest.fixture
def job(tmp_path):
    """A job for images that are made where there are none; the masks are made when asked for."""

    def build(*names: str, write: bool = True, overwrite: bool = False, **changes):
        images = {name: tmp_path / "in" / name for name in names}
        for image in images.values():
            image.parent.mkdir(parents=True, exist_ok=True)
            if not image.exists():
                image.touch()
                os.utime(image, (1, 1))
        arguments = {"settings": {"weights": "0123456789"}, "checkpoint": "best.ckpt", "classes": CLASSES}
        job = PredictJob(tmp_path / "out", images, **arguments | changes)
        masks, done = job.prepare(overwrite)
        for mask in masks.values() if write else ():
            path = tmp_path / "out" / f"{mask}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(WHOLE)
        return masks, done

    return build


def test_what_this_job_has_written_is_done(job):
    assert job("a.png", "b/c.jpg")[1] == set()
    assert job("a.png", "b/c.jpg", "d.png", write=False) == (
        {"a.png": "a", "b/c.jpg": "b/c", "d.png": "d"},
        {"a.png", "b/c.jpg"},
    )


@pytest.mark.parametrize("content", [b"", b"\x89PNG", WHOLE[:-1]])
def test_a_mask_that_was_cut_is_not_done(job, tmp_path, content):
    job("a.png", "b.png")
    (tmp_path / "out" / "a.png").write_bytes(content)
    assert job("a.png", "b.png")[1] == {"b.png"}


def test_of_two_jobs_that_begin_at_once_one_is_refused(tmp_path):
    (tmp_path / "a.png").touch()
    jobs = [
        PredictJob(tmp_path / "out", {"a.png": tmp_path / "a.png"}, {"weights": weights}, "best.ckpt", CLASSES)
        for weights in ("0123456789", "9876543210")
    ]

    def prepared(job: PredictJob) -> bool:
        try:
            job.prepare(overwrite=False)
        except ValueError:
            return False
        return True

    with ThreadPoolExecutor(2) as threads:
        assert sorted(threads.map(prepared, jobs)) == [False, True]


def test_a_mask_older_than_its_image_is_not_done(job, tmp_path):
    job("a.png", "b.png")
    os.utime(tmp_path / "in" / "a.png", (time.time() + 9,) * 2)
    assert job("a.png", "b.png")[1] == {"b.png"}


def test_without_its_overlay_an_image_is_not_done(job, tmp_path):
    job("a.png", "b.png", overlay=True)
    (tmp_path / "out" / "b_overlay.jpg").write_bytes(b"\xff\xd9")
    assert job("a.png", "b.png", overlay=True)[1] == {"b.png"}
    assert job("a.png", "b.png")[1] == {"a.png", "b.png"}


def test_an_image_keeps_its_mask_when_another_comes_that_differs_in_the_suffix(job):
    assert job("a.tif")[0] == {"a.tif": "a"}
    assert job("a.jpg", "a.tif") == ({"a.jpg": "a.jpg", "a.tif": "a"}, {"a.tif"})
    assert job("a.jpg", write=False) == ({"a.jpg": "a.jpg"}, {"a.jpg"})
    assert job("a.jpg", "a.png", "a.tif", write=False)[0] == {"a.jpg": "a.jpg", "a.png": "a.png", "a.tif": "a"}


def test_another_image_of_the_same_name_is_not_taken_for_the_one_that_was(job, tmp_path):
    job("a.jpg")
    job("a.png", write=False, overwrite=True)
    assert not (tmp_path / "out" / "a.png").exists()
    job("a.jpg", overwrite=True)
    with pytest.raises(ValueError, match=r"only this job has written, got .*a\.png of another origin; give another"):
        job("a.png")


def test_masks_of_another_model_are_refused_by_name_and_stay(job, tmp_path):
    job("a.png", "b.png")
    record = (tmp_path / "out" / ".predict.json").read_text()
    with pytest.raises(
        ValueError, match=r"masks of best\.ckpt \(01234567\) for a job of new\.ckpt \(ffff\), another in w"
    ):
        job("c.png", settings={"weights": "ffff"}, checkpoint="new.ckpt")
    assert (tmp_path / "out" / ".predict.json").read_text() == record
    assert not (tmp_path / "out" / "c.png").exists()


def test_the_same_model_elsewhere_goes_on(job):
    job("a.png")
    assert job("a.png", checkpoint="/copied/last.ckpt")[1] == {"a.png"}


def test_an_overwriting_job_that_is_stopped_goes_on_without_the_old_masks(job, tmp_path):
    job("a.png", "b.png", "old.png")
    new = {"settings": {"weights": "ffff"}}
    (tmp_path / "out" / "a_overlay.jpg").touch()
    assert job("a.png", "b.png", write=False, overwrite=True, **new)[1] == set()
    assert not (tmp_path / "out" / "a_overlay.jpg").exists()
    assert sorted(path.name for path in (tmp_path / "out").glob("*.png")) == ["old.png"]
    (tmp_path / "out" / "a.png").write_bytes(WHOLE)
    assert job("a.png", "b.png", **new)[1] == {"a.png"}
    with pytest.raises(ValueError, match=r"old\.png of another origin"):
        job("old.png", **new)


def test_files_of_others_are_neither_replaced_nor_taken_for_masks(job, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "a.png").write_text("mine")
    with pytest.raises(ValueError, match=r"got .*out with .*a\.png of another origin; .*--overwrite true"):
        job("a.png", "b.png")
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["a.png"]
    assert job("b.png")[1] == set()
    assert (tmp_path / "out" / "a.png").read_text() == "mine"


def test_a_class_list_of_others_is_never_replaced(job, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "classes.txt").write_text("mine")
    for overwrite in (False, True):
        with pytest.raises(ValueError, match=r"a classes\.txt of another origin; give another folder, or remove the"):
            job("a.png", overwrite=overwrite)
    (tmp_path / "out" / "classes.txt").write_text(classes_text(CLASSES))
    job("a.png")


def test_a_list_of_failures_of_others_is_never_touched(job, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "failed.txt").write_text("mine")
    with pytest.raises(ValueError, match=r"a failed\.txt of another origin; give another folder"):
        job("a.png", overwrite=True)
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["failed.txt"]


def test_links_that_lead_out_are_refused_and_links_in_place_of_masks_not_followed(job, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    job("b.png")
    (tmp_path / "out" / "a").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(
        ValueError, match=r"output must not lead out of itself, got .*a, which is a link to .*elsewhere"
    ):
        job("a/x.png", overwrite=True)
    kept = tmp_path / "elsewhere" / "kept"
    kept.write_text("kept")
    (tmp_path / "out" / "c.png").symlink_to(kept)
    job("c.png", overwrite=True)
    assert kept.read_text() == "kept"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        "[]",
        "\x00",
        '{"checkpoint": "a", "settings": "x", "images": {}}',
        '{"checkpoint": "a", "settings": {}, "images": 3}',
        '{"checkpoint": "a", "settings": {}, "images": ["m"]}',
    ],
)
def test_a_damaged_record_is_named(job, tmp_path, text):
    job("a.png")
    (tmp_path / "out" / ".predict.json").write_text(text)
    with pytest.raises(ValueError, match=r"\.predict\.json, which cannot be read .*remove the file"):
        job("a.png")


def test_the_record_says_what_made_the_masks(job, tmp_path):
    job("a.png")
    record = json.loads((tmp_path / "out" / ".predict.json").read_text())
    assert record == {
        "checkpoint": "best.ckpt",
        "settings": {"weights": "0123456789"},
        "images": {"a": str(tmp_path / "in" / "a.png")},
    }


def test_a_file_in_place_of_the_folder_is_named(job, tmp_path):
    (tmp_path / "out").touch()
    with pytest.raises(ValueError, match=r"output must be a folder to write to, got .*out"):
        job("a.png")


def test_names_keep_folders_and_the_suffix_where_two_would_be_one():
    assert mask_names(["a/x.jpg", "b/x.jpg", "c.v1.jpg"]) == {"a/x.jpg": "a/x", "b/x.jpg": "b/x", "c.v1.jpg": "c.v1"}
    assert mask_names(["x.jpg", "x.png", "y.png"]) == {"x.jpg": "x.jpg", "x.png": "x.png", "y.png": "y"}
    names = ["x.jpg", "x.png", "x.jpg.png", "y.png"]
    assert mask_names(names) == {name: name for name in names[:3]} | {"y.png": "y"}
    assert mask_names(["x.jpg", "x.png/y.jpg"]) == {"x.jpg": "x.jpg", "x.png/y.jpg": "x.png/y"}


@pytest.mark.parametrize(
    "name", ["../a.png", "b/../../a.png", "/a.png", "..", "", "C:\\a.png", "C:a.png", "..\\a.png", "\\\\host\\a\\b.png"]
)
def test_names_that_climb_out_are_refused(name):
    with pytest.raises(ValueError, match="names of images must lie inside their folder"):
        mask_names([name])


def test_odd_names_that_stay_inside_are_kept():
    for name in ("..a.png", "a..png", "12:30.png", "a\\b.png", "é [1] *?.png"):
        assert mask_names([name]) == {name: name.removesuffix(".png")}


def test_a_fingerprint_follows_from_names_types_shapes_and_values():
    weights = {"a": torch.arange(6.0), "b": torch.tensor(1, dtype=torch.bfloat16)}
    same = {"_orig_mod.b": weights["b"].clone(), "a": torch.arange(12.0)[:6]}
    assert fingerprint(weights) == fingerprint(same)
    for other in (
        weights | {"a": weights["a"].reshape(2, 3)},
        weights | {"a": weights["a"].view(torch.int32)},
        weights | {"a": -weights["a"]},
        {"a": weights["a"], "c": weights["b"]},
        {"a": weights["a"]},
    ):
        assert fingerprint(other) != fingerprint(weights)


def test_a_class_list_as_text_reads_back(tmp_path: Path):
    for classes in (ClassList.ade20k(), ClassList(("1 x", "y"), ((1, 2, 3), (1, 2, 3)), (300, 7), (("s", "t"), ()))):
        (tmp_path / "classes.txt").write_text(classes_text(classes), "utf-8")
        assert ClassList.from_file(tmp_path / "classes.txt") == classes
