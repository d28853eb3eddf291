import errno
import io
import shutil
import threading
import warnings
import zipfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from drawn_files import REAL_DATA, save, texture

from src.data import ADE20K, ade20k
from tests.file_server import FileServer

PARTS = ("training", "validation")
pytestmark = pytest.mark.filterwarnings("ignore:ADE20K has")


def layout(root: Path, parts: tuple[str, ...]) -> Path:
    for part in parts:
        save(root / "images" / part / f"ADE_{part}_1.jpg", texture((20, 30)))
        mask = np.zeros((20, 30), np.uint8)
        mask[:, 10:20], mask[:, 20:] = 1, 150
        save(root / "annotations" / part / f"ADE_{part}_1.png", mask)
    return root


@pytest.fixture
def server(tmp_path: Path) -> Iterator[FileServer]:
    """Serves a small archive in ADE20K's layout."""
    made, packed = layout(tmp_path / "made" / "ADEChallengeData2016", PARTS), io.BytesIO()
    with zipfile.ZipFile(packed, "w") as file:
        for path in sorted(made.rglob("*")):
            file.write(path, path.relative_to(made.parent))
    shutil.rmtree(made.parent)
    server = FileServer(packed.getvalue())
    yield server
    server.stop()


def fetched(server: FileServer, root: Path, **arguments: bool) -> ADE20K:
    data = ADE20K(str(root), url=server.url, num_workers=0, **{"download": True} | arguments)
    data.prepare_data()
    return data


def test_ids_from_one_become_indices_from_zero(tmp_path: Path):
    data = ADE20K(str(layout(tmp_path, PARTS)), num_workers=0)
    assert data.num_classes == 150
    assert data.classes.names[0] == "wall"
    mask = next(iter(data.val_dataloader()))["masks"][0]
    assert [mask[0, column].item() for column in (0, 10, 20)] == [255, 0, 149]


def test_splits_are_the_folders(tmp_path: Path):
    data = ADE20K(str(layout(tmp_path, PARTS)), num_workers=0)
    assert [pair.name for pair in data.pairs("train")] == ["ADE_training_1.jpg"]
    assert [pair.name for pair in data.pairs("val")] == ["ADE_validation_1.jpg"]
    assert data.pairs("predict") == data.pairs("val")


def test_validation_needs_no_training_images(tmp_path: Path):
    data = ADE20K(str(layout(tmp_path, ("validation",))), num_workers=0)
    data.setup("validate")
    assert len(data.val_dataloader()) == 1
    with pytest.raises(
        FileNotFoundError, match=r"data.root must hold images/training and annotations/training.*ADEChall"
    ):
        data.setup("fit")


def test_a_missing_folder_is_named_with_the_archive(tmp_path: Path):
    with pytest.raises(FileNotFoundError, match=rf"{tmp_path}/absent, which does not exist.*http.*2016\.zip"):
        ADE20K(str(tmp_path / "absent")).setup("validate")


@pytest.mark.skipif(not (REAL_DATA / "ade20k_sample").is_dir(), reason="the ADE20K sample is not beside the checkout")
def test_reads_real_annotations():
    batches = list(ADE20K(str(REAL_DATA / "ade20k_sample"), num_workers=0).val_dataloader())
    assert len(batches) == 2
    for batch in batches:
        assert tuple(batch["masks"][0].shape) == batch["original_sizes"][0]
        assert 5 < len(batch["masks"][0].unique()) < 60


@pytest.mark.parametrize("folder", ["data/ADEChallengeData2016", "ade"])
def test_a_download_ends_in_the_root_and_is_made_once(server: FileServer, tmp_path: Path, folder: str):
    root = tmp_path / folder
    for _ in range(2):
        data = fetched(server, root)
    data.setup("fit")
    assert len(data.pairs("train")) == len(data.pairs("val")) == 1
    assert server.requests == [None]
    assert [path.name for path in root.parent.iterdir() if not path.name.startswith(".")] == [root.name]


def test_without_download_nothing_is_fetched(server: FileServer, tmp_path: Path):
    fetched(server, tmp_path / "ade", download=False)
    assert server.requests == []
    assert not (tmp_path / "ade").exists()


def test_an_empty_root_is_filled_and_another_is_left_alone(server: FileServer, tmp_path: Path):
    (tmp_path / "ade").mkdir()
    fetched(server, tmp_path / "ade")
    shutil.rmtree(tmp_path / "ade" / "images" / "training")
    with pytest.raises(ValueError, match=rf"data\.root must be.*{tmp_path}/ade, which holds something else or a part"):
        fetched(server, tmp_path / "ade")
    (tmp_path / "file").write_text("mine")
    with pytest.raises(ValueError, match=rf"{tmp_path}/file, which holds something else"):
        fetched(server, tmp_path / "file")
    assert len(server.requests) == 1


def test_an_archive_fetched_by_hand_is_used_and_kept(server: FileServer, tmp_path: Path):
    (tmp_path / "ade.zip").write_bytes(server.content)
    fetched(server, tmp_path / "ade").setup("fit")
    assert (tmp_path / "ade.zip").is_file()
    assert server.requests == []


def test_two_processes_make_the_root_once(server: FileServer, tmp_path: Path):
    both = [threading.Thread(target=fetched, args=(server, tmp_path / "ade")) for _ in range(2)]
    for thread in both:
        thread.start()
    for thread in both:
        thread.join()
    fetched(server, tmp_path / "ade").setup("fit")
    assert len(server.requests) == 1


def test_an_unpacking_that_was_interrupted_starts_again(
    server: FileServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def killed(file: zipfile.ZipFile, folder: Path) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(zipfile.ZipFile, "extractall", killed)
        fetched(server, tmp_path / "ade")
    assert not (tmp_path / "ade").exists()
    fetched(server, tmp_path / "ade").setup("fit")
    assert len(server.requests) == 1


def test_another_number_of_images_is_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    data = ADE20K(str(layout(tmp_path, PARTS)), num_workers=0)
    with pytest.warns(UserWarning, match=r"ADE20K has 20,210 training images, got 1 in .*; unpack.*a part of it"):
        data.pairs("train")
    with pytest.warns(UserWarning, match=r"ADE20K has 2,000 validation images, got 1 in"):
        data.setup("validate")
    monkeypatch.setattr(ade20k, "_COUNTS", {"training": 1, "validation": 1})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        data.pairs("train"), data.pairs("predict")


@pytest.mark.parametrize("number", [0, 19])
def test_files_that_cannot_be_used_are_named_before_the_first_step(tmp_path: Path, number: int):
    root = layout(tmp_path, PARTS)
    for index in range(20):
        save(root / "images" / "training" / f"{index:02d}.jpg", texture((8, 9)))
        save(root / "annotations" / "training" / f"{index:02d}.png", np.full((8, 9), 150, np.uint8))
    for part in ("images/training/ADE_training_1.jpg", "annotations/training/ADE_training_1.png"):
        (root / part).unlink()
    data = ADE20K(str(root), num_workers=0)
    data.pairs("train")
    step = -(-20 // 8)
    image, mask = (
        root / kind / "training" / f"{number // step * step:02d}{suffix}"
        for kind, suffix in (("images", ".jpg"), ("annotations", ".png"))
    )
    save(mask, np.full((8, 9), 151, np.uint8))
    with pytest.raises(ValueError, match=rf"got 151 \(72 pixels\) in {mask}"):
        data.pairs("train")
    save(mask, np.full((9, 8), 1, np.uint8))
    with pytest.raises(ValueError, match=rf"size of its image, got {mask} with 9x8 and {image} with 8x9"):
        data.setup("fit")
    image.write_bytes(image.read_bytes()[:200])
    with pytest.raises(ValueError, match=rf"{image} cannot be read as an image"):
        data.pairs("train")


def test_a_name_that_no_system_takes_is_a_plain_error(tmp_path: Path):
    data = ADE20K(str(tmp_path / ("a" * 300)), download=True)
    for use in (data.prepare_data, lambda: data.setup("validate")):
        with pytest.raises(ValueError, match=r"data\.root must be readable, got .*aaa.* \(File name too long\)"):
            use()


@pytest.mark.parametrize("content", [b"<html>come back later</html>", b"", None], ids=["page", "empty", "other"])
def test_a_file_that_is_not_the_archive_is_fetched_again(server: FileServer, tmp_path: Path, content: bytes | None):
    archive = server.content
    if content is None:
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w") as file:
            file.writestr("note.txt", "no folder")
        content = packed.getvalue()
    server.content = content
    told = "cannot be fetched: the server sends an empty" if not content else "must be ADE20K's archive .*was removed"
    with pytest.raises(ValueError, match=rf"{server.url} {told}"):
        fetched(server, tmp_path / "ade")
    server.content = archive
    fetched(server, tmp_path / "ade").setup("fit")


def test_an_unfit_archive_fetched_by_hand_is_left_alone(server: FileServer, tmp_path: Path):
    (tmp_path / "ade.zip").write_bytes(b"<html>")
    with pytest.raises(ValueError, match=r"ade\.zip must be a whole zip file"):
        fetched(server, tmp_path / "ade")
    assert (tmp_path / "ade.zip").read_bytes() == b"<html>"


def test_an_archive_that_has_no_room_to_be_unpacked_is_kept(
    server: FileServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def full(file: zipfile.ZipFile, folder: Path) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch, pytest.raises(ValueError, match=r"cannot be unpacked .*No space left"):
        patch.setattr(zipfile.ZipFile, "extractall", full)
        fetched(server, tmp_path / "ade")
    fetched(server, tmp_path / "ade").setup("fit")
    assert len(server.requests) == 1
