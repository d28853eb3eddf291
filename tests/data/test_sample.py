import hashlib
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from drawn_files import save, texture

from src.data import Sample
from src.data.sample import make_pictures
from src.image_io import image_size, read_image, read_mask


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sample") / "pictures"
    Sample(str(folder)).prepare_data()
    return folder


def digest(folder: Path) -> str:
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return hashlib.sha256(b"".join(path.name.encode() + path.read_bytes() for path in files)).hexdigest()


def test_sets_have_their_numbers_and_sizes_of_their_own(root: Path):
    data = Sample(str(root))
    assert (len(data.pairs("train")), len(data.pairs("val"))) == (48, 12)
    sizes = [image_size(pair.image) for pair in data.pairs("train")]
    assert len(set(sizes)) > 40
    assert all(90 < side <= 170 for size in sizes for side in size)


def test_loaders_give_all_eight_classes(root: Path):
    data = Sample(str(root), num_workers=0, batch_size=8)
    assert data.num_classes == 8
    batches = list(data.train_dataloader())
    assert batches[0]["images"].shape == (8, 3, 96, 96)
    assert set(np.unique([batch["masks"].numpy() for batch in batches])) == {*range(8), 255}
    assert Sample(str(root), crop_size=64).crop_size == (64, 64)


def test_made_quickly_and_the_same_to_the_byte(root: Path, tmp_path: Path):
    start = time.perf_counter()
    make_pictures(tmp_path / "again")
    assert time.perf_counter() - start < 10
    assert digest(tmp_path / "again") == digest(root)


def test_default_folder_is_made_in_the_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    Sample().setup("validate")
    assert [path.name for path in (tmp_path / "runs").iterdir()] == ["sample-data-1"]


def test_existing_pictures_are_kept(tmp_path: Path):
    for kind in ("images", "annotations"):
        for part in ("training", "validation"):
            save(tmp_path / kind / part / "own.png", texture((4, 4)))
    assert [pair.name for pair in Sample(str(tmp_path)).pairs("val")] == ["own.png"]


def test_a_folder_with_other_files_is_left_alone(tmp_path: Path):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(FileNotFoundError, match=r"lacks them; give another folder"):
        Sample(str(tmp_path)).setup("fit")
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_two_makers_at_once_leave_one_whole_set(root: Path, tmp_path: Path):
    makers = [threading.Thread(target=make_pictures, args=(tmp_path / "shared",)) for _ in range(2)]
    for maker in makers:
        maker.start()
    for maker in makers:
        maker.join()
    assert digest(tmp_path / "shared") == digest(root)
    assert [path.name for path in tmp_path.iterdir()] == ["shared"]


def test_colour_alone_does_not_tell_the_classes(root: Path):
    data = Sample(str(root))

    def pixels(split: str) -> tuple[np.ndarray, np.ndarray]:
        images = [read_image(pair.image, 3) for pair in data.pairs(split)]
        masks = [read_mask(pair.mask) for pair in data.pairs(split) if pair.mask]
        colours, ids = (
            np.concatenate([part.reshape(-1, *part.shape[2:]) for part in parts]) for parts in (images, masks)
        )
        return (colours[ids > 0] // 16).astype(int) @ [256, 16, 1], ids[ids > 0] - 1

    cells, classes = pixels("train")
    table = np.zeros((16**3, 8))
    np.add.at(table, (cells, classes), 1)
    cells, classes = pixels("val")
    confusion = np.zeros((8, 8))
    np.add.at(confusion, (classes, table[cells].argmax(1)), 1)
    iou = confusion.diagonal() / (confusion.sum(0) + confusion.sum(1) - confusion.diagonal())
    assert iou.mean() < 0.25
    assert iou.max() < 0.6
