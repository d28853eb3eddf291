from pathlib import Path

import pytest
from drawn_files import save, texture

from src.data import ImageFolder


def names(images: str | list[str]) -> list[str]:
    return [pair.name for pair in ImageFolder(images).pairs("predict")]


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("in/x/1.png", "in/y/1.png", "in/y/z/2.JPG", "in/.hidden.png", "other/3.png", "a[1].png", "a1.png"):
        save(tmp_path / name, texture((4, 4)), format="PNG")
    (tmp_path / "in" / "notes.pdf").touch()
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_images_of_all_folders_come_once_with_their_names(tmp_path: Path):
    for name, size in (("a.png", (9, 7)), ("b/c.jpg", (5, 8)), ("._a.png", (2, 2))):
        save(tmp_path / name, texture(size))
    data = ImageFolder(str(tmp_path), num_workers=0, eval_batch_size=2)
    data.setup("predict")
    (batch,) = data.predict_dataloader()
    assert batch["names"] == ["a.png", "b/c.jpg"]
    assert batch["sizes"] == batch["original_sizes"] == [(9, 7), (5, 8)]
    assert batch["images"].shape == (2, 3, 9, 8)
    assert "masks" not in batch


def test_it_serves_predict_only(tmp_path: Path):
    save(tmp_path / "a.png", texture((4, 4)))
    data = ImageFolder(str(tmp_path))
    assert data.num_classes == 0
    for use in (lambda: data.setup("fit"), lambda: data.setup("validate"), data.train_dataloader, data.val_dataloader):
        with pytest.raises(ValueError, match="ImageFolder has no masks and serves predict only"):
            use()


def test_a_missing_folder_is_named(tmp_path: Path):
    with pytest.raises(FileNotFoundError, match=rf"folder of images \(\.bmp, .* got {tmp_path}/absent, which does not"):
        ImageFolder(str(tmp_path / "absent")).setup("predict")


@pytest.mark.parametrize(
    ("images", "expected"),
    [
        ("in", ["x/1.png", "y/1.png", "y/z/2.JPG"]),
        (["in"], ["x/1.png", "y/1.png", "y/z/2.JPG"]),
        (["in/x", "in/y"], ["x/1.png", "y/1.png", "y/z/2.JPG"]),
        (["in/y", "./in/../in/x"], ["x/1.png", "y/1.png", "y/z/2.JPG"]),
        (["in/x", "other"], ["in/x/1.png", "other/3.png"]),
        ("in/x/1.png", ["1.png"]),
        (["in/x/1.png", "in/y/1.png"], ["x/1.png", "y/1.png"]),
        ("in/*/*.png", ["x/1.png", "y/1.png"]),
        ("in/*/1.*", ["x/1.png", "y/1.png"]),
        ("in/x*/*.png", ["x/1.png"]),
        ("in/**", ["x/1.png", "y/1.png", "y/z/2.JPG"]),
        ("in/**/*.png", ["x/1.png", "y/1.png"]),
        ("*.png", ["a1.png", "a[1].png"]),
        ("a[1].png", ["a[1].png"]),
        ("a[12].png", ["a1.png"]),
        (["in", "in/x", "in/x/1.png", "in/*/1.png"], ["x/1.png", "y/1.png", "y/z/2.JPG"]),
    ],
    ids=str,
)
def test_images_come_from_folders_files_and_patterns_each_once(root, images, expected):
    assert names(images) == expected


@pytest.mark.parametrize("folder", ["__MACOSX", "@eaDir", "$RECYCLE.BIN", "#recycle", "System Volume Information"])
def test_what_systems_keep_is_passed_over_alike_by_folders_and_patterns(root, folder):
    save(root / "in" / "x" / folder / "deep" / "copy.png", texture((3, 4)))
    for images in ("in", "in/**", "in/**/*.png", "in/x/*/*/*"):
        if images == "in/x/*/*/*":
            with pytest.raises(FileNotFoundError, match="matches no image"):
                names(images)
        else:
            assert not [name for name in names(images) if "copy" in name]
    assert names(f"in/x/{folder}/**") == ["deep/copy.png"]  # named by the user


def test_absolute_and_relative_names_are_the_same_images(root):
    assert names([str(root / "in"), "in/x/1.png"]) == ["x/1.png", "y/1.png", "y/z/2.JPG"]
    assert names(str(root / "in" / "*" / "*.png")) == ["x/1.png", "y/1.png"]


def test_a_list_names_files_beside_it_or_in_the_working_directory(root):
    lines = ["# chosen", "1.png", "", "  ../y/1.png ", str(root / "other" / "3.png"), "a1.png", "1.png"]
    (root / "in" / "x" / "list.TXT").write_text("\ufeff" + "\r\n".join(lines), "utf-8")
    assert names("in/x/list.TXT") == ["a1.png", "in/x/1.png", "in/y/1.png", "other/3.png"]


def test_a_link_keeps_its_own_name(root):
    (root / "in" / "x" / "link.png").symlink_to(root / "other" / "3.png")
    assert names("in/x") == ["1.png", "link.png"]


@pytest.mark.parametrize(
    ("images", "kind", "said"),
    [
        ([], ValueError, r"got \[\]; name at least one"),
        ("", ValueError, "no empty name"),
        (["in", ""], ValueError, "no empty name"),
        (["in", "absent.png"], FileNotFoundError, r"got .*absent\.png, which does not exist"),
        ("in/notes.pdf", ValueError, r"must name images \(\.bmp.*got in/notes\.pdf; leave it out"),
        ("*.jpg", FileNotFoundError, r"the pattern \*\.jpg, which matches no image\."),
        ("i*", FileNotFoundError, r"the pattern i\*, which matches no image; .*end the pattern with /\*\*"),
        (
            "lists/missing.txt",
            FileNotFoundError,
            r"got no/such\.png in line 3 of lists/missing\.txt, which does not exist",
        ),
        ("a" * 300, ValueError, r"data\.images must be readable, got a+ \(File name too long\)"),
        ("lists/long.txt", ValueError, r"data\.images must be readable, got .*a+ \(File name too long\)"),
        ("loop", FileNotFoundError, r"got .*/loop, which does not exist"),
        ("lists/folder.txt", FileNotFoundError, r"got .*in in line 1 of lists/folder\.txt, which is a folder"),
        ("lists/suffix.txt", ValueError, r"got in/notes\.pdf in line 1 of lists/suffix\.txt"),
        ("lists/empty.txt", FileNotFoundError, r"got lists/empty\.txt, which lists no image"),
        ("lists/binary.txt", ValueError, r"got lists/binary\.txt, which cannot be read as UTF-8"),
    ],
    ids=str,
)
def test_what_is_no_image_is_named(root, images, kind, said):
    texts = {"missing": "# list\na1.png\nno/such.png\n", "folder": "in", "suffix": "in/notes.pdf", "empty": "\n#\n"}
    texts["long"] = "a" * 300
    (root / "loop").symlink_to("loop")
    (root / "lists").mkdir()
    for name, text in texts.items():
        (root / "lists" / f"{name}.txt").write_text(text)
    (root / "lists" / "binary.txt").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(kind, match=said):
        names(images)


def test_images_left_out_are_not_loaded_until_others_are(root):
    data = ImageFolder("in", num_workers=0, eval_batch_size=5)
    data.leave_out(lambda: ["x/1.png", "unknown"])
    (batch,) = data.predict_dataloader()
    assert batch["names"] == ["y/1.png", "y/z/2.JPG"]
    assert len(data.predict_pairs) == 3
    data.leave_out(lambda: [pair.name for pair in data.predict_pairs])
    assert list(data.predict_dataloader()) == []
