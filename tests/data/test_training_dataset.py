import tracemalloc
from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np
import pytest
import torch
from drawn_files import drawn_pair, labels, mask_folders, save, texture
from PIL import Image

from src.classes import ClassList
from src.data import MaskFolder
from src.data.labels import LabelEncoder
from src.data.pairs import Pair
from src.data.source import Source
from src.data.training_dataset import TrainingDataset
from src.data.transforms import RecipeAugmentation, TrainingTransform
from src.preprocessing import Preprocessing
from tests.layers.largest_tensor import LargestTensor

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


def blocks(root: Path, suffix: str, orientation: int = 1) -> Pair:
    """Large blocks of grey that say which class they are of; the mask is stored upright."""
    ids = np.kron(labels((6, 9), range(6), seed=3), np.ones((64, 64), np.uint8))
    grey = Image.fromarray((40 * ids).astype(np.uint8))
    exif = Image.Exif()
    exif[0x0112] = orientation
    stored = grey.transpose(Image.Transpose.ROTATE_90) if orientation == 6 else grey
    stored.convert("RGB").save(root / f"a{suffix}", quality=95, exif=exif)
    return Pair(f"a{suffix}", root / f"a{suffix}", save(root / "a.png", ids))


def reading(found: Pair, draft: bool, resize: tuple[int, int] | None = (90, 60)) -> TrainingDataset:
    preprocessing = Preprocessing(resize=resize, mean=(0.0,) * 3, std=(1.0,) * 3)
    settings = replace(PLAIN, scale_range=(0.5, 2.0), max_class_share=0.75, flip=0.5)
    transform = TrainingTransform(settings, preprocessing, (64, 64), seed=0)
    return TrainingDataset([found], [SOURCE], preprocessing, transform, (64, 64), draft)


@pytest.mark.parametrize("orientation", [1, 6])
def test_reduced_decoding_keeps_image_and_mask_aligned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, orientation: int
):
    found = blocks(tmp_path, ".jpg", orientation)
    decoded = []
    whole, reduced = reading(found, draft=False), reading(found, draft=True)
    transformed = reduced.transform.__class__.__call__
    monkeypatch.setattr(
        TrainingTransform,
        "__call__",
        lambda self, image, *rest: decoded.append(image.shape[:2]) or transformed(self, image, *rest),
    )
    for epoch in range(12):
        plain, item = whole[epoch, 0], reduced[epoch, 0]
        assert torch.equal(item["mask"], plain["mask"])
        assert item["original_size"] == plain["original_size"] == (384, 576)
        mask = item["mask"].numpy().astype(np.uint8)
        kernel = np.ones((5, 5), np.uint8)
        inner = (cv2.erode(mask, kernel) == cv2.dilate(mask, kernel)) & (mask != 255)
        assert inner.sum() > 200
        assert np.abs(item["image"][0].numpy()[inner] - 40.0 * mask[inner]).max() < 12
    assert set(decoded[::2]) == {(384, 576)}
    assert {(192, 288), (96, 144)} <= set(decoded[1::2])


def test_nothing_changes_where_no_reduced_decoding_is_possible(tmp_path: Path):
    png = blocks(tmp_path, ".bmp")
    jpg = blocks(tmp_path, ".jpg")
    for found, resize in ((png, (90, 60)), (jpg, None)):
        for epoch in range(3):
            plain, item = (reading(found, draft, resize)[epoch, 0] for draft in (False, True))
            assert torch.equal(item["image"], plain["image"])
            assert torch.equal(item["mask"], plain["mask"])


def test_reduced_decoding_is_for_training_and_can_be_switched_off(tmp_path: Path):
    folders = mask_folders(tmp_path, [(64, 96)] * 2)
    for path in list((tmp_path / "images").iterdir()):
        save(path.with_suffix(".jpg"), texture((64, 96)))
        path.unlink()
    trained, scored = [], []
    for draft in (True, False):
        preprocessing = Preprocessing(resize=(24, 16))
        data = MaskFolder(**folders, num_workers=0, preprocessing=preprocessing, augmentation=PLAIN, draft=draft)
        trained.append(next(iter(data.train_dataloader()))["images"])
        scored.append(next(iter(data.val_dataloader()))["images"])
    assert not torch.equal(*trained)
    assert torch.equal(*scored)


def test_grey_coloured_and_transparent_files_make_one_batch(tmp_path: Path):
    folders = mask_folders(tmp_path, [(32, 32)] * 6)
    for path, mode in zip(sorted((tmp_path / "images").iterdir()), ("L", "LA", "RGB", "RGBA", "P", "1"), strict=True):
        save(path, texture((32, 32)), mode)
    folders |= {"val_images": folders["images"], "val_masks": folders["masks"]}
    data = MaskFolder(**folders, num_workers=0, batch_size=6, eval_batch_size=6, crop_size=32)
    for loader in (data.train_dataloader(), data.val_dataloader(), data.predict_dataloader()):
        assert next(iter(loader))["images"].shape == (6, 3, 32, 32)


@pytest.mark.parametrize("name", ["00.jpg", "00.png"])
def test_a_cut_image_is_named_by_the_worker_that_reads_it(tmp_path: Path, name: str):
    folders = mask_folders(tmp_path, [(64, 64)] * 2)
    (tmp_path / "images" / "00.png").unlink()
    path = save(tmp_path / "images" / name, texture((64, 64)))
    path.write_bytes(path.read_bytes()[: path.stat().st_size * 6 // 10])
    folders |= {"val_images": folders["images"], "val_masks": folders["masks"]}
    data = MaskFolder(**folders, num_workers=2, crop_size=16)
    for loader in (data.train_dataloader(), data.val_dataloader()):
        with pytest.raises(ValueError, match=rf"{path} cannot be read as an image .*; replace or remove the file"):
            list(loader)


def test_names_in_any_script_are_read_and_kept(tmp_path: Path):
    root = tmp_path / "数据 é [1] 100%"
    folders = mask_folders(root, [(20, 30)] * 3)
    for kind in ("images", "masks"):
        (root / kind / "00.png").rename(root / kind / "图像 ü*.png")
        (root / kind / "01.png").rename(root / kind / "a?.b%20c.png")
    folders |= {"val_images": folders["images"], "val_masks": folders["masks"]}
    data = MaskFolder(**folders, num_workers=0, crop_size=16, batch_size=3)
    for loader in (data.train_dataloader(), data.val_dataloader(), data.predict_dataloader()):
        found = {name for batch in loader for name in batch["names"]}
        assert found == {"02.png", "a?.b%20c.png", "图像 ü*.png"}


def test_a_large_photograph_is_never_held_whole_as_numbers_that_can_be_fractions(tmp_path: Path):
    """Of six million pixels a part is decoded, a crop is varied, and the crop alone becomes float32."""
    blots = cv2.resize(texture((20, 30)), (3000, 2000), interpolation=cv2.INTER_CUBIC)
    ids = np.kron(labels((20, 30), range(6)), np.ones((100, 100), np.uint8))
    found = Pair("a.jpg", save(tmp_path / "a.jpg", blots), save(tmp_path / "a.png", ids))
    preprocessing = Preprocessing(resize=(2048, 512))
    transform = TrainingTransform(RecipeAugmentation(scale_range=(0.5, 1.9)), preprocessing, (512, 512), seed=0)
    dataset = TrainingDataset([found], [SOURCE], preprocessing, transform, (512, 512), draft=True)
    dataset[0, 0]
    tracemalloc.start()
    with LargestTensor() as largest:
        item = dataset[1, 0]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert item["original_size"] == (2000, 3000)
    assert largest.numel <= 3 * 512 * 512
    assert peak < 40e6  # the mask and a half of the photograph; as float32 the photograph has 72 MB
