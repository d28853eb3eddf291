from pathlib import Path

import numpy as np
import pytest
from lightning.pytorch import Trainer
from PIL import Image

from src.callbacks import PredictionWriter
from src.callbacks.prediction_writer import mask_names
from src.classes import ClassList
from src.data import ImageFolder
from src.data.image_io import read_image
from src.tasks import SemanticSegmentation


def predict(task: SemanticSegmentation, images: Path, writer: PredictionWriter) -> object:
    trainer = Trainer(accelerator="cpu", logger=False, enable_progress_bar=False, callbacks=[writer])
    return trainer.predict(task, ImageFolder(str(images), num_workers=0), return_predictions=False)


@pytest.fixture
def task(tiny_segmenter):
    return SemanticSegmentation(tiny_segmenter(3), ClassList(tuple("abc"), ((1, 2, 3), (40, 50, 60), (7, 8, 9))))


@pytest.fixture
def images(tmp_path):
    rng = np.random.default_rng(0)
    for name, size in {"97x143.png": (97, 143), "deep/er/500x33.jpg": (500, 33), "1x1.PNG": (1, 1)}.items():
        path = tmp_path / "images" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(rng.integers(0, 256, (*size, 3), dtype=np.uint8)).save(path)
    return tmp_path / "images"


def test_each_mask_has_the_images_size_and_path_and_the_palette(task, images, tmp_path):
    assert predict(task, images, PredictionWriter(str(tmp_path / "out"))) is None
    written = {
        path.relative_to(tmp_path / "out").as_posix() for path in (tmp_path / "out").rglob("*") if path.is_file()
    }
    assert written == {"97x143.png", "deep/er/500x33.png", "1x1.png"}
    for name, size in {"97x143.png": (97, 143), "deep/er/500x33.png": (500, 33), "1x1.png": (1, 1)}.items():
        with Image.open(tmp_path / "out" / name) as mask:
            assert (mask.mode, (mask.height, mask.width)) == ("P", size)
            assert mask.getpalette()[:9] == [1, 2, 3, 40, 50, 60, 7, 8, 9]
            assert set(np.unique(np.asarray(mask))) <= {0, 1, 2}


def test_overlays_on_request_show_image_and_mask(task, images, tmp_path):
    predict(task, images, PredictionWriter(str(tmp_path / "out"), overlay=True))
    with Image.open(tmp_path / "out" / "97x143_overlay.jpg") as overlay:
        assert overlay.size == (143, 97)
    assert (tmp_path / "out" / "deep" / "er" / "500x33_overlay.jpg").is_file()


class Inverted(ImageFolder):
    """A data set with a reader of its own."""

    @staticmethod
    def read_image(path, channels=3):
        return 255 - read_image(path, channels)


def test_overlays_show_what_the_data_sets_own_reader_reads(task, images, tmp_path):
    for data, name in ((ImageFolder, "plain"), (Inverted, "inverted")):
        writer = PredictionWriter(str(tmp_path / name), overlay=True)
        trainer = Trainer(accelerator="cpu", logger=False, enable_progress_bar=False, callbacks=[writer])
        trainer.predict(task, data(str(images), num_workers=0), return_predictions=False)
    image = read_image(images / "97x143.png")
    for name, expected in (("plain", image), ("inverted", 255 - image)):
        overlay = read_image(tmp_path / name / "97x143_overlay.jpg").astype(int)
        assert np.corrcoef(overlay.ravel(), expected.ravel())[0, 1] > 0.3


@pytest.mark.parametrize("place", ["", "masks", "deep/er"])
def test_writes_nothing_among_the_images(task, images, place):
    with pytest.raises(ValueError, match="output must not lie in the folder of the images"):
        predict(task, images, PredictionWriter(str(images / place), overlay=True))


def test_a_folder_that_cannot_be_written_is_named_before_the_first_image(task, images, tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(ValueError, match=r"output must be a folder to write to, got .*file"):
        predict(task, images, PredictionWriter(str(tmp_path / "file")))


def test_leaves_no_half_file_where_writing_breaks_off(task, images, tmp_path, monkeypatch):
    def broken(self, path, format):
        Path(path).write_bytes(b"half")
        raise OSError("disk full")

    monkeypatch.setattr(Image.Image, "save", broken)
    with pytest.raises(OSError, match="disk full"):
        predict(task, images, PredictionWriter(str(tmp_path / "out")))
    assert not [path for path in (tmp_path / "out").rglob("*") if path.is_file()]


def test_names_keep_folders_and_the_suffix_where_two_would_be_one():
    assert mask_names(["a/x.jpg", "b/x.jpg", "c.v1.jpg"]) == {"a/x.jpg": "a/x", "b/x.jpg": "b/x", "c.v1.jpg": "c.v1"}
    assert mask_names(["x.jpg", "x.png", "y.png"]) == {"x.jpg": "x.jpg", "x.png": "x.png", "y.png": "y"}
    assert len(set(mask_names(["x.jpg", "x.png", "x.jpg.png"]).values())) == 3


@pytest.mark.parametrize("name", ["../a.png", "b/../../a.png", "/a.png"])
def test_names_that_climb_out_are_refused(name):
    with pytest.raises(ValueError, match="names of images must lie inside their folder"):
        mask_names([name])
