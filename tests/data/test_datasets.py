from pathlib import Path

import numpy as np
import pytest
import torch
from drawn_files import labels, save, texture

from src.classes import ClassList
from src.data.datasets import EvaluationDataset, TrainingDataset
from src.data.image_io import read_image, read_mask
from src.data.labels import LabelEncoder
from src.data.pairs import Pair
from src.data.transforms import RecipeAugmentation, TrainingTransform
from src.preprocessing import Preprocessing

READERS = (read_image, read_mask)
PLAIN = RecipeAugmentation(scale_range=(1, 1), max_class_share=1, flip=0, photometric=False)


def pair(root: Path, size: tuple[int, int], ids: tuple[int, ...] = (0, 1)) -> Pair:
    image = save(root / "image.png", texture(size))
    return Pair("image.png", image, save(root / "mask.png", labels(size, ids)))


def encoder(count: int = 6) -> LabelEncoder:
    return LabelEncoder(ClassList.from_names([f"class {index}" for index in range(count)]))


def training(found: Pair, crop: int, preprocessing: Preprocessing = Preprocessing()) -> TrainingDataset:  # noqa: B008
    transform = TrainingTransform(PLAIN, preprocessing, (crop, crop), seed=0)
    return TrainingDataset([found], encoder(), preprocessing, transform, (crop, crop), READERS)


def test_small_images_are_padded_with_zeros_and_ignored_labels(tmp_path: Path):
    item = training(pair(tmp_path, (20, 30)), crop=64)[0, 0]
    assert item["image"].shape == (3, 64, 64)
    assert item["mask"].shape == (64, 64)
    assert item["mask"].dtype == torch.int64
    assert (item["mask"] != 255).sum() == 600
    assert (item["image"][:, 20:] == 0).all()
    assert (item["image"][:, :, 30:] == 0).all()
    assert item["size"] == (64, 64)
    assert item["original_size"] == (20, 30)


def test_training_and_evaluation_normalise_alike(tmp_path: Path):
    found = pair(tmp_path, (16, 16))
    trained = training(found, crop=16)[0, 0]
    evaluated = EvaluationDataset([found], Preprocessing(), READERS, encoder())[0]
    assert torch.equal(trained["image"], evaluated["image"])
    assert torch.equal(trained["mask"], evaluated["mask"])


def test_padding_leaves_ids_as_they_are(tmp_path: Path):
    item = training(pair(tmp_path, (16, 16), ids=(5,)), crop=32)[0, 0]
    assert item["mask"].unique().tolist() == [5, 255]
    assert (item["mask"][:16, :16] == 5).all()


def test_evaluation_keeps_the_label_at_its_original_size(tmp_path: Path):
    stripes = np.zeros((90, 130), np.uint8)
    stripes[:, ::4] = stripes[:, 1::4] = 1
    found = Pair("a.png", save(tmp_path / "a.png", texture((90, 130))), save(tmp_path / "masks" / "a.png", stripes))
    item = EvaluationDataset([found], Preprocessing(resize=(1000, 64)), READERS, encoder())[0]
    assert item["image"].shape == (3, 64, 92)
    assert item["size"] == (64, 92)
    assert item["mask"].tolist() == stripes.tolist()
    assert item["original_size"] == (90, 130)


def test_prediction_reads_no_mask(tmp_path: Path):
    found = Pair("a.png", save(tmp_path / "a.png", texture((9, 8))))
    assert "mask" not in EvaluationDataset([found], Preprocessing(), READERS)[0]


@pytest.mark.parametrize("kind", ["L", "1", "I", "I;16"])
def test_masks_of_every_kind_become_one_plane_of_integers(tmp_path: Path, kind: str):
    ids = labels((8, 8), [0, 1])
    stored = {"L": ids, "1": ids.astype(bool), "I": ids.astype(np.int32), "I;16": ids.astype(np.uint16)}[kind]
    mask = save(tmp_path / ("mask.tif" if kind == "I" else "mask.png"), stored)
    found = Pair("a.png", save(tmp_path / "a.png", texture((8, 8))), mask)
    item = training(found, crop=8)[0, 0]
    assert item["mask"].dtype == torch.int64
    assert item["mask"].tolist() == ids.tolist()
    torch.nn.functional.cross_entropy(torch.zeros(1, 6, 8, 8), item["mask"][None], ignore_index=255)


def test_images_and_masks_of_different_sizes_are_named(tmp_path: Path):
    image = save(tmp_path / "a.png", texture((60, 40)))
    mask = save(tmp_path / "m.png", labels((61, 40), [0]))
    with pytest.raises(ValueError, match=r"got .*m\.png with 61x40 and .*a\.png with 60x40 \(height x width\)"):
        EvaluationDataset([Pair("a.png", image, mask)], Preprocessing(), READERS, encoder())[0]


def test_channels_follow_the_preprocessing(tmp_path: Path):
    grey = Preprocessing(mean=(0.0,), std=(1.0,))
    found = pair(tmp_path, (8, 8))
    assert training(found, 8, grey)[0, 0]["image"].shape == (1, 8, 8)
    assert EvaluationDataset([found], grey, READERS)[0]["image"].shape == (1, 8, 8)
