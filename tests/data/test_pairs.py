from pathlib import Path

import pytest
from drawn_files import save, texture

from src.data.image_io import read_mask
from src.data.pairs import find_images, match_pairs

TINY = texture((2, 2))


def test_masks_belong_to_images_by_stem_whatever_the_order_of_files(tmp_path: Path):
    for number in (10, 1, 2):
        save(tmp_path / "images" / f"{number}.jpg", TINY)
    for number in (2, 10, 1):
        save(tmp_path / "masks" / f"{number}.png", TINY[..., 0] * 0 + number % 3)
    pairs = match_pairs(tmp_path / "images", tmp_path / "masks")
    assert [pair.name for pair in pairs] == ["1.jpg", "10.jpg", "2.jpg"]
    assert [int(read_mask(pair.mask)[0, 0]) for pair in pairs if pair.mask] == [1, 1, 2]


def test_nested_folders_are_part_of_the_name(tmp_path: Path):
    for folder in ("a", "b/c"):
        save(tmp_path / "jpg_images" / folder / "jpg.JPG", TINY, format="jpeg")
        save(tmp_path / "masks" / folder / "jpg.png", TINY)
    pairs = match_pairs(tmp_path / "jpg_images", tmp_path / "masks")
    assert [pair.name for pair in pairs] == ["a/jpg.JPG", "b/c/jpg.JPG"]
    assert [pair.mask for pair in pairs] == [tmp_path / "masks" / folder / "jpg.png" for folder in ("a", "b/c")]


def test_dots_in_names_are_kept(tmp_path: Path):
    for stem in ("v1.0", "v1.1"):
        save(tmp_path / "images" / f"{stem}.jpg", TINY)
        save(tmp_path / "masks" / f"{stem}.png", TINY)
    assert len(match_pairs(tmp_path / "images", tmp_path / "masks")) == 2


def test_hidden_and_system_files_are_passed_over(tmp_path: Path):
    for folder in (tmp_path / "images", tmp_path / "masks"):
        save(folder / "a.png", TINY)
        for name in (".DS_Store", "Thumbs.db", "._a.jpg", ".hidden/b.png", "__MACOSX/c.png", "notes.txt"):
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).write_bytes(b"")
    assert [pair.name for pair in match_pairs(tmp_path / "images", tmp_path / "masks")] == ["a.png"]
    assert [pair.name for pair in find_images(tmp_path / "images", "data.images")] == ["a.png"]


def test_linked_folders_are_followed(tmp_path: Path):
    save(tmp_path / "elsewhere" / "a.png", TINY)
    (tmp_path / "images").mkdir()
    (tmp_path / "images" / "link").symlink_to(tmp_path / "elsewhere")
    assert [pair.name for pair in find_images(tmp_path / "images", "data.images")] == ["link/a.png"]


def test_unmatched_files_are_listed(tmp_path: Path):
    for stem in ("a", "b", "c"):
        save(tmp_path / "images" / f"{stem}.jpg", TINY)
    for stem in ("a", "x"):
        save(tmp_path / "masks" / f"{stem}.png", TINY)
    with pytest.raises(ValueError, match=r"2 images without a mask \(b, c\) and 1 masks without an image \(x\) in .*"):
        match_pairs(tmp_path / "images", tmp_path / "masks")


def test_doubled_stems_are_named(tmp_path: Path):
    for name in ("a.jpg", "a.png"):
        save(tmp_path / "images" / name, TINY)
    save(tmp_path / "masks" / "a.png", TINY)
    with pytest.raises(ValueError, match=r"data.images must hold one file a name, got .*a\.jpg and .*a\.png"):
        match_pairs(tmp_path / "images", tmp_path / "masks")


def test_empty_and_missing_folders_are_named(tmp_path: Path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(FileNotFoundError, match=rf"data.images must hold images \(.*\.png.*\), got {tmp_path}/empty"):
        find_images(tmp_path / "empty", "data.images")
    with pytest.raises(FileNotFoundError, match=rf"data.images must be a folder.*{tmp_path}/absent.*does not exist"):
        find_images(tmp_path / "absent", "data.images")


def test_mask_suffix_tells_masks_from_images_in_one_folder(tmp_path: Path):
    for name in ("a.jpg", "a_mask.png", "b.jpg", "b_mask.png"):
        save(tmp_path / name, TINY)
    pairs = match_pairs(tmp_path, tmp_path, mask_suffix="_mask")
    assert [(pair.name, pair.mask) for pair in pairs] == [
        ("a.jpg", tmp_path / "a_mask.png"),
        ("b.jpg", tmp_path / "b_mask.png"),
    ]
    with pytest.raises(ValueError, match=r"one file a name|same names"):
        match_pairs(tmp_path / ".", tmp_path, mask_suffix="_labels")


def test_names_in_any_script_are_found(tmp_path: Path):
    for kind in ("images", "masks"):
        save(tmp_path / "数据é" / kind / "图像 ü.png", TINY)
    pairs = match_pairs(tmp_path / "数据é" / "images", tmp_path / "数据é" / "masks")
    assert [pair.name for pair in pairs] == ["图像 ü.png"]


def test_links_that_lead_back_are_not_followed(tmp_path: Path):
    save(tmp_path / "images" / "a" / "1.png", TINY)
    (tmp_path / "images" / "a" / "up").symlink_to(tmp_path / "images", target_is_directory=True)
    (tmp_path / "images" / "a" / "self").symlink_to(tmp_path / "images" / "a", target_is_directory=True)
    assert [pair.name for pair in find_images(tmp_path / "images", "data.images")] == ["a/1.png"]


def test_a_file_in_place_of_a_folder_is_said_to_be_one(tmp_path: Path):
    save(tmp_path / "photo.png", TINY)
    with pytest.raises(FileNotFoundError, match=r"data\.images must be a folder of images, got .*, which is a file"):
        find_images(tmp_path / "photo.png", "data.images")
