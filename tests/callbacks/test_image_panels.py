import numpy as np
import pytest
import torch
from lightning.pytorch import Trainer
from lightning.pytorch.loggers import TensorBoardLogger
from PIL import Image

from src.callbacks import ImagePanels
from src.callbacks.image_panels import shown
from src.data import Sample
from src.preprocessing import Preprocessing
from src.tasks import SemanticSegmentation


@pytest.fixture
def run(tiny_segmenter, sample_root, tmp_path):
    def validate(**settings) -> list:
        data = Sample(root=str(sample_root), num_workers=0)
        logger = TensorBoardLogger(tmp_path, name="", version="")
        trainer = Trainer(
            accelerator="cpu", logger=logger, enable_progress_bar=False, limit_val_batches=3,
            callbacks=[ImagePanels(**settings)], use_distributed_sampler=False,
        )  # fmt: skip
        trainer.validate(SemanticSegmentation(tiny_segmenter(), data.classes), data, verbose=False)
        return sorted((tmp_path / "panels").glob("*.png"))

    return validate


@pytest.mark.parametrize(("num_images", "height"), [(1, 32), (2, 50)])
def test_shows_image_label_and_prediction_of_the_first_images(run, num_images, height, sample_root):
    (panel,) = run(num_images=num_images, height=height)
    pixels = np.asarray(Image.open(panel))
    assert pixels.shape[0] == num_images * height
    first = sorted((sample_root / "images" / "validation").iterdir())[0]
    with Image.open(first) as image:
        width = round(image.width * height / image.height)
        expected = np.asarray(image.convert("RGB").resize((width, height), Image.Resampling.NEAREST))
    assert np.array_equal(pixels[:height, :width], expected)
    label_colours = {tuple(colour) for colour in pixels[:height, width : 2 * width].reshape(-1, 3).tolist()}
    assert label_colours <= {*Sample(root=str(sample_root)).classes.palette, (0, 0, 0)}


def test_wide_pictures_are_cut_off():
    panels = ImagePanels(height=32)
    picture = np.zeros((1, 5000, 3), np.uint8)
    assert panels._scaled(picture).shape == (32, 128, 3)
    assert panels._scaled(picture.transpose(1, 0, 2)).shape == (32, 1, 3)
    assert panels._scaled(np.zeros((64, 96, 3), np.uint8)).shape == (32, 48, 3)


def test_none_on_request(run):
    assert run(num_images=0) == []


def test_undoes_the_normalisation():
    for channels, preprocessing in [(3, Preprocessing()), (1, Preprocessing(mean=(30.0,), std=(9.0,)))]:
        image = np.arange(8 * 5 * channels, dtype=np.uint8).reshape(8, 5, channels)
        picture = shown(preprocessing(torch.from_numpy(image)), preprocessing)
        assert np.array_equal(picture, np.broadcast_to(image, (8, 5, 3)))


@pytest.mark.parametrize(("key", "value"), [("num_images", -1), ("height", 0)])
def test_numbers_out_of_range_are_named(key, value):
    with pytest.raises(ValueError, match=rf"panels\.{key} must be at least .*got {value}"):
        ImagePanels(**{key: value})
