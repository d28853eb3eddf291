import os
import unicodedata
from pathlib import Path

import pytest
from drawn_files import save, texture

from src.data.pairs import find_images, match_pairs
from src.image_io import read_mask

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


@pytest.mark.parametrize(
    "stems", [["v1.0", "v1.1"], ["a.b.c", "a.b"], ["jpg", "png"], ["a.jpg", "a"], ["A", "a"],
              ["a b", "a [1]", "a(2)", "50%", "a%20b", "a+b", "x*", "x?", "~", "#1", "-r", "'q\"", "a\nb"]]
)  # fmt: skip
def test_names_are_taken_as_they_are(tmp_path: Path, stems: list[str]):
    for stem in stems:
        save(tmp_path / "images.jpg" / f"{stem}.jpg", TINY)
        save(tmp_path / "masks.png" / f"{stem}.png", TINY)
    pairs = match_pairs(tmp_path / "images.jpg", tmp_path / "masks.png")
    assert {pair.name: pair.mask for pair in pairs} == {
        f"{stem}.jpg": tmp_path / "masks.png" / f"{stem}.png" for stem in stems
    }


@pytest.mark.parametrize("suffix", ["jpg", "JPG", "Jpeg", "PNG", "TIF", "tiff", "BMP", "webp", "gif", "ppm"])
def test_suffixes_count_in_capitals_and_small_letters(tmp_path: Path, suffix: str):
    (tmp_path / "images").mkdir()
    (tmp_path / "images" / f"a.{suffix}").write_bytes(b"")
    assert len(find_images(tmp_path / "images", "data.images")) == 1


def test_hidden_and_system_files_are_passed_over(tmp_path: Path):
    for folder in (tmp_path / "images", tmp_path / "masks"):
        save(folder / "a.png", TINY)
        for name in (
            ".DS_Store", "Thumbs.db", "desktop.ini", "._a.jpg", ".hidden/b.png", "__MACOSX/c.png", "@eaDir/d.png",
            "#recycle/e.png", "$Recycle.Bin/f.png", "System Volume Information/g.png", ".Trash-1000/h.png", "notes.txt",
            "README",
        ):  # fmt: skip
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
    with pytest.raises(
        FileNotFoundError,
        match=rf"data.images must be a folder of images \(\.bmp, .*\), got {tmp_path}/absent, which does not exist",
    ):
        find_images(tmp_path / "absent", "data.images")


def test_mask_suffix_tells_masks_from_images_in_one_folder(tmp_path: Path):
    for name in ("a.jpg", "a_mask.png", "b.jpg", "b_mask.png"):
        save(tmp_path / name, TINY)
    pairs = match_pairs(tmp_path, tmp_path, mask_suffix="_mask")
    assert [(pair.name, pair.mask) for pair in pairs] == [
        ("a.jpg", tmp_path / "a_mask.png"),
        ("b.jpg", tmp_path / "b_mask.png"),
    ]


def test_names_in_any_script_are_found(tmp_path: Path):
    for kind in ("images", "masks"):
        save(tmp_path / "数据é" / kind / "图像 ü.png", TINY)
    pairs = match_pairs(tmp_path / "数据é" / "images", tmp_path / "数据é" / "masks")
    assert [pair.name for pair in pairs] == ["图像 ü.png"]


@pytest.mark.parametrize("forms", [("NFC", "NFD"), ("NFD", "NFC"), ("NFD", "NFD")])
@pytest.mark.parametrize("mask_suffix", ["", "_mäske"])
def test_names_match_whatever_normal_form_they_are_stored_in(tmp_path: Path, forms: tuple[str, str], mask_suffix: str):
    image, mask = (unicodedata.normalize(form, "Ümlaut é/Größe å") for form in forms)
    path = save(tmp_path / "images" / f"{image}.png", TINY)
    save(tmp_path / "masks" / unicodedata.normalize(forms[1], f"{mask}{mask_suffix}.png"), TINY)
    (pair,) = match_pairs(tmp_path / "images", tmp_path / "masks", mask_suffix=mask_suffix)
    assert pair.name == f"{image}.png"
    assert pair.image == path
    assert pair.mask.is_file()


def test_one_name_in_two_normal_forms_is_one_too_many(tmp_path: Path):
    for form in ("NFC", "NFD"):
        save(tmp_path / "images" / unicodedata.normalize(form, "é.png"), TINY)
    save(tmp_path / "masks" / "é.png", TINY)
    with pytest.raises(ValueError, match=r"data\.images must hold one file a name"):
        match_pairs(tmp_path / "images", tmp_path / "masks")


def test_linked_files_are_read_through_the_link(tmp_path: Path):
    save(tmp_path / "elsewhere" / "photo.png", TINY)
    (tmp_path / "images").mkdir()
    (tmp_path / "images" / "a.png").symlink_to(tmp_path / "elsewhere" / "photo.png")
    assert [pair.name for pair in find_images(tmp_path / "images", "data.images")] == ["a.png"]


@pytest.mark.parametrize("name", ["a.png", "folder"])
@pytest.mark.parametrize("target", ["nowhere", "."])
def test_links_that_lead_nowhere_are_named(tmp_path: Path, name: str, target: str):
    save(tmp_path / "images" / "1.png", TINY)
    target = name if target == "." else target
    (tmp_path / "images" / name).symlink_to(target)
    with pytest.raises(ValueError, match=rf"data\.images must hold files, got the link .*/{name} to {target}, which"):
        find_images(tmp_path / "images", "data.images")


def test_folders_that_may_not_be_read_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    save(tmp_path / "images" / "secret" / "1.png", TINY)
    scandir = os.scandir

    def refuse(folder: Path) -> object:
        if Path(folder).name == "secret":
            raise PermissionError(13, "Permission denied", str(folder))
        return scandir(folder)

    monkeypatch.setattr(os, "scandir", refuse)
    with pytest.raises(ValueError, match=r"data\.images must be readable, got .*/images/secret \(Permission denied\)"):
        find_images(tmp_path / "images", "data.images")


def test_one_folder_for_both_wants_a_mask_suffix(tmp_path: Path):
    for name in ("a.jpg", "a_mask.png"):
        save(tmp_path / "set" / name, TINY)
    (tmp_path / "link").symlink_to(tmp_path / "set")
    for masks in (tmp_path / "set", tmp_path / "set" / ".." / "set", tmp_path / "link"):
        with pytest.raises(ValueError, match=r"must be two folders, got .* for both; .*data\.mask_suffix"):
            match_pairs(tmp_path / "set", masks)
        assert len(match_pairs(tmp_path / "set", masks, mask_suffix="_mask")) == 1


def test_masks_may_lie_in_a_folder_among_the_images(tmp_path: Path):
    for name in ("a.jpg", "b/c.jpg", "masks/a.png", "masks/b/c.png"):
        save(tmp_path / name, TINY)
    pairs = match_pairs(tmp_path, tmp_path / "masks")
    assert {pair.name: pair.mask for pair in pairs} == {
        "a.jpg": tmp_path / "masks" / "a.png",
        "b/c.jpg": tmp_path / "masks" / "b" / "c.png",
    }


@pytest.mark.parametrize("masks", ["", "label_link"])
def test_images_may_lie_in_a_folder_among_the_masks(tmp_path: Path, masks: str):
    root = tmp_path / "labels"
    for name in ("a.png", "b/c.png", "images/a.jpg", "images/b/c.jpg"):
        save(root / name, TINY)
    (tmp_path / "label_link").symlink_to(root)
    pairs = match_pairs(root / "images", tmp_path / (masks or "labels"))
    assert [(pair.name, pair.mask.resolve()) for pair in pairs] == [
        ("a.jpg", root / "a.png"),
        ("b/c.jpg", root / "b" / "c.png"),
    ]


def test_a_folder_above_the_images_without_masks_is_said_to_have_none(tmp_path: Path):
    save(tmp_path / "images" / "a.png", TINY)
    with pytest.raises(FileNotFoundError, match=rf"data\.masks must hold masks, got {tmp_path}, which .* alone"):
        match_pairs(tmp_path / "images", tmp_path)


def test_masks_that_keep_the_suffix_of_their_image_are_found_by_it(tmp_path: Path):
    for name in ("images/a.jpg", "masks/a.jpg.png"):
        save(tmp_path / name, TINY)
    with pytest.raises(ValueError, match=r"1 images without a mask \(a\).*\(a\.jpg\).*`NAME\.jpg\.png`"):
        match_pairs(tmp_path / "images", tmp_path / "masks")
    assert len(match_pairs(tmp_path / "images", tmp_path / "masks", mask_suffix=".jpg")) == 1


@pytest.mark.parametrize("suffix", ["_mask.png", "_labels"])
def test_a_mask_suffix_that_fits_no_file_is_named(tmp_path: Path, suffix: str):
    for name in ("images/a.jpg", "masks/a_mask.png"):
        save(tmp_path / name, TINY)
    with pytest.raises(
        ValueError, match=rf"data\.mask_suffix must end the names of masks, got '{suffix}', .*example a_mask\.png"
    ):
        match_pairs(tmp_path / "images", tmp_path / "masks", mask_suffix=suffix)


def test_links_that_lead_back_are_not_followed(tmp_path: Path):
    save(tmp_path / "images" / "a" / "1.png", TINY)
    (tmp_path / "images" / "a" / "up").symlink_to(tmp_path / "images", target_is_directory=True)
    (tmp_path / "images" / "a" / "self").symlink_to(tmp_path / "images" / "a", target_is_directory=True)
    assert [pair.name for pair in find_images(tmp_path / "images", "data.images")] == ["a/1.png"]


def test_a_file_in_place_of_a_folder_is_said_to_be_one(tmp_path: Path):
    save(tmp_path / "photo.png", TINY)
    with pytest.raises(FileNotFoundError, match=r"data\.images must be a folder of images \(.*, which is a file"):
        find_images(tmp_path / "photo.png", "data.images")


@pytest.mark.parametrize("name", ["notes.txt", "set.v1"])
def test_a_link_that_leads_nowhere_and_is_no_image_is_passed_over(tmp_path: Path, name: str):
    save(tmp_path / "images" / "1.png", TINY)
    (tmp_path / "images" / name).symlink_to("nowhere")
    assert [pair.name for pair in find_images(tmp_path / "images", "data.images")] == ["1.png"]


@pytest.mark.parametrize("loop", ["images", "masks"])
def test_links_in_a_circle_are_no_folder(tmp_path: Path, loop: str):
    save(tmp_path / ("masks" if loop == "images" else "images") / "1.png", TINY)
    (tmp_path / loop).symlink_to(loop)
    told = rf"data\.{loop} must be a folder of images .*/{loop}, which is a link that leads nowhere"
    with pytest.raises(FileNotFoundError, match=told):
        match_pairs(tmp_path / "images", tmp_path / "masks")


def test_a_name_that_no_system_takes_is_said_to_be_too_long(tmp_path: Path):
    with pytest.raises(
        ValueError, match=r"data\.images must be readable, got .*a{300} \(File name too long\); correct"
    ):
        find_images(tmp_path / ("a" * 300), "data.images")
