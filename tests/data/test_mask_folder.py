from pathlib import Path

import numpy as np
import pytest
from drawn_files import REAL_DATA, mask_folders, save, texture
from jsonargparse import ArgumentParser

from src.data import MaskFolder, SegmentationDataModule
from src.data.labels import LabelEncoder
from src.image_io import read_mask
from src.inference.drawing import mask_image

SIZES = [(8, 9)] * 10


def names(data: MaskFolder, split: str) -> list[str]:
    return [pair.name for pair in data.pairs(split)]


@pytest.mark.parametrize(("fraction", "count"), [(0.2, 2), (0.5, 5), (0.01, 1), (0.99, 9)])
def test_a_fraction_of_the_images_validates(tmp_path: Path, fraction: float, count: int):
    data = MaskFolder(**mask_folders(tmp_path, SIZES), val_fraction=fraction)
    train, val = names(data, "train"), names(data, "val")
    assert len(val) == count
    assert sorted(train + val) == [f"{index:02d}.png" for index in range(10)]
    assert names(data, "predict") == val


def test_the_choice_follows_from_the_seed(tmp_path: Path):
    folders = mask_folders(tmp_path, SIZES)
    choices = [names(MaskFolder(**folders, seed=seed), "val") for seed in (0, 0, 1, 2)]
    assert choices[0] == choices[1]
    assert len({tuple(choice) for choice in choices}) > 1


def test_validation_may_have_folders_of_its_own(tmp_path: Path):
    folders, own = mask_folders(tmp_path / "train", SIZES), mask_folders(tmp_path / "val", SIZES[:3])
    data = MaskFolder(**folders, val_images=own["images"], val_masks=own["masks"])
    assert len(names(data, "train")) == 10
    assert [pair.image.parent for pair in data.pairs("val")] == [tmp_path / "val" / "images"] * 3
    with pytest.raises(ValueError, match=r"data.val_images and data.val_masks must be given together"):
        MaskFolder(**folders, val_images=own["images"])


def test_masks_of_0_and_255_are_two_classes(tmp_path: Path):
    folders = mask_folders(tmp_path, SIZES, ids=(0, 255))
    Path(folders["classes"]).write_text("0 background\n255 membrane\n")
    data = MaskFolder(**folders, num_workers=0)
    assert data.classes.ids == (0, 255)
    assert next(iter(data.val_dataloader()))["masks"][0].unique().tolist() == [0, 1]


def test_ignored_ids_leave_the_classes_and_the_labels(tmp_path: Path):
    folders = mask_folders(tmp_path, SIZES, ids=(0, 1, 11))
    kept, left_out = (MaskFolder(**folders, num_workers=0, ignored_ids=ids) for ids in (None, [11]))
    assert (kept.num_classes, left_out.num_classes) == (3, 2)
    assert next(iter(left_out.val_dataloader()))["masks"][0].unique().tolist() == [0, 1, 255]


def test_reduce_zero_label_leaves_out_zero(tmp_path: Path):
    folders = mask_folders(tmp_path, SIZES, ids=(0, 1, 2))
    Path(folders["classes"]).write_text("wall\nfloor\n")
    data = MaskFolder(**folders, num_workers=0, reduce_zero_label=True)
    assert data.classes.names == ("wall", "floor")
    assert next(iter(data.val_dataloader()))["masks"][0].unique().tolist() == [0, 1, 255]


def test_mask_suffix_is_used(tmp_path: Path):
    folders = mask_folders(tmp_path, SIZES)
    for path in sorted(Path(folders["masks"]).iterdir()):
        path.rename(path.with_name(f"{path.stem}_mask.png"))
    assert len(names(MaskFolder(**folders, mask_suffix="_mask"), "train")) == 8
    with pytest.raises(ValueError, match=r"or give data.mask_suffix"):
        MaskFolder(**folders).setup("fit")


def test_one_image_cannot_be_shared_out(tmp_path: Path):
    with pytest.raises(ValueError, match="at least 2 images to set some aside"):
        MaskFolder(**mask_folders(tmp_path, SIZES[:1])).setup("fit")


@pytest.mark.parametrize("fraction", [0.0, 1.0])
def test_a_fraction_outside_its_range_is_refused(tmp_path: Path, fraction: float):
    with pytest.raises(ValueError, match=r"data.val_fraction must be above 0 and below 1"):
        MaskFolder(**mask_folders(tmp_path, SIZES), val_fraction=fraction)


def test_a_missing_class_file_is_named(tmp_path: Path):
    with pytest.raises(FileNotFoundError, match=r"data.classes must be a text file.*none\.txt"):
        MaskFolder(**mask_folders(tmp_path, SIZES) | {"classes": str(tmp_path / "none.txt")})


def test_grey_and_transparent_images_share_a_batch(tmp_path: Path):
    folders = mask_folders(tmp_path, SIZES[:4])
    save(tmp_path / "images" / "00.png", texture((8, 9), channels=1))
    save(tmp_path / "images" / "01.png", texture((8, 9), channels=4))
    data = MaskFolder(**folders, num_workers=0, batch_size=3, crop_size=8)
    assert next(iter(data.train_dataloader()))["images"].shape == (3, 3, 8, 8)


def test_ids_of_16_bits_stay_apart(tmp_path: Path):
    ids = (0, 1, 255, 256, 300, 459)
    folders = mask_folders(tmp_path, [(2, 3)] * 2)
    Path(folders["classes"]).write_text("".join(f"{class_id} class {class_id}\n" for class_id in ids))
    for index in range(2):
        save(tmp_path / "masks" / f"{index:02d}.png", np.array(ids, np.uint16).reshape(2, 3))
    data = MaskFolder(**folders, num_workers=0)
    data.setup("fit")
    assert next(iter(data.val_dataloader()))["masks"][0].tolist() == [[0, 1, 2], [3, 4, 5]]
    Path(folders["classes"]).write_text("".join(f"class {index}\n" for index in range(460)))
    with pytest.raises(ValueError, match=r"must leave 2 to 255 classes.*got 459"):
        MaskFolder(**folders, ignored_ids=[255])


def test_a_json_of_classes_is_read(tmp_path: Path):
    folders = mask_folders(tmp_path, SIZES[:2])
    (tmp_path / "id2label.json").write_text('{"0": "sky", "1": "road"}')
    assert MaskFolder(**folders | {"classes": f"{tmp_path}/id2label.json"}).classes.names == ("sky", "road")


def test_mapped_values_are_trained_and_predicted_masks_hold_ids_of_classes(tmp_path: Path):
    folders = mask_folders(tmp_path, SIZES, ids=(0, 255))
    Path(folders["classes"]).write_text("background\ncell\n")
    data = MaskFolder(**folders, num_workers=0, crop_size=8, mapping={255: "cell"})
    data.setup("fit")
    assert set(next(iter(data.train_dataloader()))["masks"].unique().tolist()) >= {0, 1}
    labels = next(iter(data.val_dataloader()))["masks"][0].numpy()
    mask_image(labels, data.classes).save(tmp_path / "predicted.png")
    predicted = read_mask(tmp_path / "predicted.png")
    assert set(predicted.flat) == {0, 1}
    assert np.array_equal(LabelEncoder(data.classes)(predicted, "predicted.png"), labels)


@pytest.mark.parametrize(
    "given",
    ["mapping: {255: 1, 7: cell, 9: null}", 'mapping: {"255": 1, "7": "cell", "9": null}', None],
)
def test_a_mapping_is_read_from_a_config_and_a_flag_and_comes_back(tmp_path: Path, given: str | None):
    folders = mask_folders(tmp_path, SIZES[:2])
    Path(folders["classes"]).write_text("background\ncell\n")
    parser = ArgumentParser(parser_mode="omegaconf+")
    parser.add_subclass_arguments(SegmentationDataModule, "data")
    parser.add_argument("--config", action="config")
    lines = ["data:", "  class_path: src.data.MaskFolder", "  init_args:", f"    {given or 'seed: 0'}"]
    (tmp_path / "config.yaml").write_text("\n".join(lines + [f"    {key}: {value}" for key, value in folders.items()]))
    flags = [] if given else ["--data.mapping", '{255: 1, "7": cell, 9: null}']
    config = parser.parse_args([f"--config={tmp_path}/config.yaml", *flags])
    (tmp_path / "saved.yaml").write_text(parser.dump(config))
    for read in (config, parser.parse_args([f"--config={tmp_path}/saved.yaml"])):
        encoder = parser.instantiate(read).data.encoder
        assert encoder.indices == {0: 0, 1: 1, 255: 1, 7: 1}
        assert encoder.ignored_ids == (9,)


@pytest.mark.skipif(not (REAL_DATA / "camvid").is_dir(), reason="CamVid is not beside the checkout")
def test_reads_real_street_scenes():
    root = REAL_DATA / "camvid"
    data = MaskFolder(
        images=f"{root}/images/train",
        masks=f"{root}/masks/train",
        classes=f"{root}/classes.txt",
        val_images=f"{root}/images/val",
        val_masks=f"{root}/masks/val",
        ignored_ids=[11],
        num_workers=0,
        crop_size=128,
    )
    data.setup("fit")
    assert (data.num_classes, len(data.pairs("train")), len(data.pairs("val"))) == (11, 367, 101)
    assert data.classes.names[-1] == "bicyclist"
    assert next(iter(data.train_dataloader()))["masks"].shape == (2, 128, 128)
    assert next(iter(data.val_dataloader()))["masks"][0].shape == (360, 480)


@pytest.mark.skipif(not (REAL_DATA / "membrane").is_dir(), reason="the membrane slices are not beside the checkout")
def test_reads_real_grey_slices(tmp_path: Path):
    (tmp_path / "classes.txt").write_text("0 background\n255 membrane\n")
    root = REAL_DATA / "membrane"
    data = MaskFolder(f"{root}/images", f"{root}/masks", f"{tmp_path}/classes.txt", num_workers=0)
    data.setup("fit")
    assert next(iter(data.val_dataloader()))["masks"][0].unique().tolist() == [0, 1]
