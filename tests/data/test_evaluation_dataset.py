from pathlib import Path

import numpy as np
import pytest
import torch
from drawn_files import drawn_pair, labels, save, texture

from src.classes import ClassList
from src.data.batch import UnreadableImage
from src.data.evaluation_dataset import EvaluationDataset
from src.data.labels import LabelEncoder
from src.data.pairs import Pair
from src.data.source import Source
from src.data.training_dataset import TrainingDataset
from src.data.transforms import RecipeAugmentation, TrainingTransform
from src.preprocessing import Preprocessing

SOURCE = Source(encoder=LabelEncoder(ClassList.from_names([f"class {index}" for index in range(6)])))


def test_training_and_evaluation_normalise_alike(tmp_path: Path):
    found = drawn_pair(tmp_path, (16, 16))
    still = RecipeAugmentation(scale_range=(1, 1), max_class_share=1, flip=0, photometric=False)
    transform = TrainingTransform(still, Preprocessing(), (16, 16), seed=0)
    trained = TrainingDataset([found], [SOURCE], Preprocessing(), transform, (16, 16))[0, 0]
    evaluated = EvaluationDataset([found], [SOURCE], Preprocessing(), with_masks=True)[0]
    assert torch.equal(trained["image"], evaluated["image"])
    assert torch.equal(trained["mask"], evaluated["mask"])


def test_evaluation_keeps_the_label_at_its_original_size(tmp_path: Path):
    stripes = np.zeros((90, 130), np.uint8)
    stripes[:, ::4] = stripes[:, 1::4] = 1
    found = Pair("a.png", save(tmp_path / "a.png", texture((90, 130))), save(tmp_path / "masks" / "a.png", stripes))
    item = EvaluationDataset([found], [SOURCE], Preprocessing(resize=(1000, 64)), with_masks=True)[0]
    assert item["image"].shape == (3, 64, 92)
    assert item["size"] == (64, 92)
    assert item["mask"].tolist() == stripes.tolist()
    assert item["original_size"] == (90, 130)


def test_an_image_that_does_not_count_has_no_labels(tmp_path: Path):
    dataset = EvaluationDataset([drawn_pair(tmp_path, (6, 5))], [SOURCE], Preprocessing(), with_masks=True)
    assert torch.equal(dataset[0, True]["mask"], dataset[0]["mask"])
    assert dataset[0]["mask"].unique().tolist() == [0, 1]
    assert dataset[0, False]["mask"].tolist() == torch.full((6, 5), 255).tolist()


def test_prediction_reads_no_mask(tmp_path: Path):
    found = Pair("a.png", save(tmp_path / "a.png", texture((9, 8))))
    assert "mask" not in EvaluationDataset([found], [SOURCE], Preprocessing(), with_masks=False)[0]


def test_images_and_masks_of_different_sizes_are_named(tmp_path: Path):
    image = save(tmp_path / "a.png", texture((60, 40)))
    mask = save(tmp_path / "m.png", labels((61, 40), [0]))
    with pytest.raises(ValueError, match=r"got .*m\.png with 61x40 and .*a\.png with 60x40 \(height x width\)"):
        EvaluationDataset([Pair("a.png", image, mask)], [SOURCE], Preprocessing(), with_masks=True)[0]


def test_channels_follow_the_preprocessing(tmp_path: Path):
    grey = Preprocessing(mean=(0.0,), std=(1.0,))
    found = drawn_pair(tmp_path, (8, 8))
    assert EvaluationDataset([found], [SOURCE], grey, with_masks=False)[0]["image"].shape == (1, 8, 8)


@pytest.mark.parametrize("content", [None, b"", b"no image", b"\x89PNG\r\n\x1a\n"])
def test_an_image_that_cannot_be_read_is_a_reason_in_prediction_and_an_error_in_scoring(tmp_path: Path, content):
    pair = drawn_pair(tmp_path, (8, 8))
    pair.image.unlink() if content is None else pair.image.write_bytes(content)
    unreadable = EvaluationDataset([pair], [SOURCE], Preprocessing(), with_masks=False)[0]
    assert isinstance(unreadable, UnreadableImage)
    assert unreadable.name == "image.png"
    assert str(pair.image) in unreadable.reason
    with pytest.raises((ValueError, FileNotFoundError)) as error:
        EvaluationDataset([pair], [SOURCE], Preprocessing(), with_masks=True)[0]
    assert str(error.value) == unreadable.reason


def test_a_mistake_in_a_reader_is_an_error_in_prediction_too(tmp_path: Path):
    def broken(path, channels):
        raise AttributeError("a mistake")

    pair = drawn_pair(tmp_path, (8, 8))
    with pytest.raises(AttributeError, match="a mistake"):
        EvaluationDataset([pair], [Source(read_image=broken)], Preprocessing(), with_masks=False)[0]
