from pathlib import Path

import numpy as np
import pytest
from drawn_files import REAL_DATA, save, texture

from src.data import ADE20K


def layout(root: Path, parts: tuple[str, ...]) -> Path:
    for part in parts:
        save(root / "images" / part / f"ADE_{part}_1.jpg", texture((20, 30)))
        mask = np.zeros((20, 30), np.uint8)
        mask[:, 10:20], mask[:, 20:] = 1, 150
        save(root / "annotations" / part / f"ADE_{part}_1.png", mask)
    return root


def test_ids_from_one_become_indices_from_zero(tmp_path: Path):
    data = ADE20K(str(layout(tmp_path, ("training", "validation"))), num_workers=0)
    assert data.num_classes == 150
    assert data.classes.names[0] == "wall"
    mask = next(iter(data.val_dataloader()))["masks"][0]
    assert [mask[0, column].item() for column in (0, 10, 20)] == [255, 0, 149]


def test_splits_are_the_folders(tmp_path: Path):
    data = ADE20K(str(layout(tmp_path, ("training", "validation"))), num_workers=0)
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
