import shutil
from dataclasses import replace
from pathlib import Path

from drawn_files import labels

from src.data import MaskFolder, Pair
from src.data.checks.overlap import shared_images

MASKS = [labels((8, 8), (0, 1))] * 6


def told(data: MaskFolder, seconds: float = 60) -> list[str]:
    val = data.pairs("val")
    return [finding.message for finding in shared_images(data.pairs("train"), val, val, seconds)]


def test_other_images_are_no_finding(drawn):
    assert told(drawn(MASKS)) == []


def test_the_same_folder_twice_is_told(drawn, findings, tmp_path):
    data = drawn(MASKS)
    data.val_images, data.val_masks = data.images, data.masks
    (message,) = told(data)
    assert "6 of 6 validation images are training images too" in message
    assert "and 1 more" in message
    assert "data.val_images" in message
    assert [finding.severity for finding in findings(data)] == ["warning"]


def test_links_to_training_images_are_told(drawn, tmp_path):
    data = drawn(MASKS)
    target = tmp_path / "val" / "images" / "002.png"
    target.unlink()
    target.symlink_to(tmp_path / "train" / "images" / "004.png")
    assert told(data, seconds=0) == []
    assert (
        f"1 of 6 validation images are training images too: {target} is {tmp_path}/train/images/004.png"
        in told(data)[0]
    )


def test_copies_under_another_name_are_told_while_there_is_time(drawn, tmp_path):
    data = drawn(MASKS)
    copied = shutil.copy(tmp_path / "train" / "images" / "001.png", tmp_path / "val" / "images" / "003.png")
    assert f"1 of 6 validation images are training images too: {copied} is" in told(data)[0]
    assert told(data, seconds=0) == []


def test_images_of_one_length_that_differ_are_no_finding(drawn, tmp_path):
    data = drawn(MASKS)
    for split in ("train", "val"):
        for path in (tmp_path / split / "images").iterdir():
            path.write_bytes(f"{split}{path.name}".rjust(32).encode())
    assert told(data) == []
    (tmp_path / "val" / "images" / "005.png").write_bytes((tmp_path / "train" / "images" / "000.png").read_bytes())
    assert "1 of 6 validation images are training images too" in told(data)[0]


def test_names_that_are_no_files_are_passed_over():
    pair = Pair("a", Path("shop://pictures/1"), Path("shop://masks/1"))
    assert list(shared_images([pair], [replace(pair, name="b")], [pair], 60)) == []
