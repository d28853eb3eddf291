from pathlib import Path

import numpy as np
import pytest
import torch
from drawn_files import drawn_pair, labels, save, texture

from src.classes import ClassList
from src.data.labels import LabelEncoder
from src.data.pairs import Pair
from src.data.source import Source
from src.data.training_dataset import TrainingDataset
from src.data.transforms import RecipeAugmentation, TrainingTransform
from src.preprocessing import Preprocessing

SOURCE = Source(encoder=LabelEncoder(ClassList.from_names([f"class {index}" for index in range(6)])))
PLAIN = RecipeAugmentation(scale_range=(1, 1), max_class_share=1, flip=0, photometric=False)


def training(found: Pair, crop: int, preprocessing: Preprocessing = Preprocessing()) -> TrainingDataset:  # noqa: B008
    transform = TrainingTransform(PLAIN, preprocessing, (crop, crop), seed=0)
    return TrainingDataset([found], [SOURCE], preprocessing, transform, (crop, crop))


def test_small_images_are_padded_with_zeros_and_ignored_labels(tmp_path: Path):
    item = training(drawn_pair(tmp_path, (20, 30)), crop=64)[0, 0]
    assert item["image"].shape == (3, 64, 64)
    assert item["mask"].shape == (64, 64)
    assert item["mask"].dtype == torch.int64
    assert (item["mask"] != 255).sum() == 600
    assert (item["image"][:, 20:] == 0).all()
    assert (item["image"][:, :, 30:] == 0).all()
    assert item["size"] == (64, 64)
    assert item["original_size"] == (20, 30)


def test_padding_leaves_ids_as_they_are(tmp_path: Path):
    item = training(drawn_pair(tmp_path, (16, 16), ids=(5,)), crop=32)[0, 0]
    assert item["mask"].unique().tolist() == [5, 255]
    assert (item["mask"][:16, :16] == 5).all()


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
