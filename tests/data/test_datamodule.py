import hashlib
import pickle
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import cv2
import numpy as np
import pytest
import torch
from drawn_files import mask_folders, save, texture
from jsonargparse import ArgumentParser

from src.classes import ClassList
from src.data import ImageFolder, MaskFolder, Pair, RecipeAugmentation, SegmentationDataModule
from src.data.datamodule import Split
from src.data.loader import loader_options
from src.data.pairs import match_pairs
from src.preprocessing import Preprocessing

STILL = RecipeAugmentation(scale_range=(1, 1), max_class_share=1, flip=0, photometric=False)


def module(root: Path, sizes: Sequence[tuple[int, int]] = ((20, 30),) * 6, **arguments: Any) -> MaskFolder:
    return MaskFolder(**mask_folders(root, sizes), **{"num_workers": 0, "crop_size": 16} | arguments)


def whole(root: Path, sizes: Sequence[tuple[int, int]], **arguments: Any) -> MaskFolder:
    """All images in both splits."""
    folders = mask_folders(root, sizes)
    folders |= {"val_images": folders["images"], "val_masks": folders["masks"]}
    return MaskFolder(**folders, **{"num_workers": 0, "crop_size": 16} | arguments)


def with_trainer(data: SegmentationDataModule, **trainer: Any) -> SegmentationDataModule:
    defaults = {"max_steps": -1, "accumulate_grad_batches": 1, "global_rank": 0, "world_size": 1}
    data.trainer = SimpleNamespace(**defaults | trainer)
    return data


def digests(data: SegmentationDataModule, epochs: int) -> list[list[str]]:
    loader = data.train_dataloader()
    passes = []
    for epoch in range(epochs):
        loader.sampler.set_epoch(epoch)
        samples = [sample for batch in loader for sample in zip(batch["images"], batch["masks"], strict=True)]
        passes.append([hashlib.sha256(image.numpy().tobytes() + mask.numpy().tobytes()).hexdigest()
                       for image, mask in samples])  # fmt: skip
    return passes


def test_works_without_a_trainer(tmp_path: Path):
    data = module(tmp_path, batch_size=2)
    data.setup("fit")
    batch = next(iter(data.train_dataloader()))
    assert batch["images"].shape == (2, 3, 16, 16)
    assert batch["masks"].shape == (2, 16, 16)
    assert batch["sizes"] == [(16, 16), (16, 16)]
    assert len(data.train_dataloader()) == 3
    assert data.num_classes == len(data.classes) == 2


def test_validation_images_of_several_sizes_make_one_batch(tmp_path: Path):
    data = whole(tmp_path, [(32, 48), (48, 32), (40, 40)], eval_batch_size=2)
    batches = list(data.val_dataloader())
    assert [tuple(batch["images"].shape) for batch in batches] == [(2, 3, 48, 48), (1, 3, 40, 40)]
    assert [batch["sizes"] for batch in batches] == [[(32, 48), (48, 32)], [(40, 40)]]
    assert [tuple(mask.shape) for batch in batches for mask in batch["masks"]] == [(32, 48), (48, 32), (40, 40)]
    one_by_one = list(whole(tmp_path, [(32, 48), (48, 32), (40, 40)]).val_dataloader())
    assert torch.equal(batches[0]["images"][1, :, :48, :32], one_by_one[1]["images"][0])
    assert torch.equal(batches[0]["masks"][1], one_by_one[1]["masks"][0])


@pytest.mark.filterwarnings("ignore:This DataLoader will create 4 worker processes")
def test_augmentation_differs_between_samples_and_epochs_and_repeats_with_the_seed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("src.data.datamodule.num_cores", lambda: 4)
    data = whole(tmp_path, [(200, 300)] * 16, batch_size=4, num_workers=4, crop_size=64)
    for path in (tmp_path / "images").iterdir():
        save(path, texture((200, 300)))
    passes = digests(data, epochs=3)
    assert len({sample for epoch in passes for sample in epoch}) >= 0.8 * 48
    assert passes[0] != passes[1] != passes[2] != passes[0]
    assert digests(data, epochs=3) == passes


@pytest.mark.parametrize(
    "workers",
    [
        {"num_workers": 1},
        {"num_workers": 3},
        {"num_workers": 3, "persistent_workers": False},
        {"num_workers": 1, "multiprocessing_context": "spawn"},
        {"num_workers": 1, "multiprocessing_context": "forkserver"},
    ],
    ids=str,
)
@pytest.mark.filterwarnings("ignore:This DataLoader will create")
def test_batches_do_not_depend_on_the_workers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, workers: dict):
    monkeypatch.setattr("src.data.datamodule.num_cores", lambda: 4)
    data = whole(tmp_path, [(20, 30)] * 5, **workers)
    assert digests(data, epochs=2) == digests(whole(tmp_path, [(20, 30)] * 5), epochs=2)
    scored, alone = (
        [batch["images"] for batch in one.val_dataloader()] for one in (data, whole(tmp_path, [(20, 30)] * 5))
    )
    assert [torch.equal(*pair) for pair in zip(scored, alone, strict=True)] == [True] * 5
    loader = data.train_dataloader()
    assert loader.num_workers == workers["num_workers"]
    assert loader.persistent_workers == workers.get("persistent_workers", True)
    context = workers.get("multiprocessing_context")
    assert context is None or loader.multiprocessing_context.get_start_method() == context


def test_two_processes_see_together_what_one_sees(tmp_path: Path):
    alone = with_trainer(whole(tmp_path, [(20, 30)] * 5, batch_size=4), max_steps=4)
    together = [
        with_trainer(whole(tmp_path, [(20, 30)] * 5, batch_size=2), max_steps=4, global_rank=rank, world_size=2)
        for rank in range(2)
    ]
    shares = zip(*(data.train_dataloader() for data in together), strict=True)
    for whole_batch, share in zip(alone.train_dataloader(), shares, strict=True):
        joined = torch.stack(
            [image for images in zip(*(part["images"] for part in share), strict=True) for image in images]
        )
        assert torch.equal(whole_batch["images"], joined)


def test_the_seed_changes_the_batches(tmp_path: Path):
    first, second = (digests(whole(tmp_path, [(20, 30)] * 5, seed=seed), epochs=2) for seed in (0, 1))
    assert first != second


@pytest.mark.filterwarnings("ignore:This DataLoader will create")
def test_there_are_no_more_workers_than_cores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("src.data.datamodule.num_cores", lambda: 3)
    assert module(tmp_path, num_workers=8).train_dataloader().num_workers == 3
    assert module(tmp_path, num_workers=1).train_dataloader().num_workers == 1
    assert with_trainer(module(tmp_path, num_workers=8), num_devices=2).train_dataloader().num_workers == 1
    assert with_trainer(module(tmp_path, num_workers=8), num_devices=8).train_dataloader().num_workers == 1


class Threads(torch.utils.data.Dataset):
    """Items that are the numbers of threads a worker may use."""

    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> list[int]:
        worker = torch.utils.data.get_worker_info()
        return [worker.id, torch.get_num_threads(), cv2.getNumThreads()]


@pytest.mark.filterwarnings("ignore:This DataLoader will create")
@pytest.mark.parametrize(("context", "workers"), [("fork", 4), ("spawn", 2)])
def test_a_worker_uses_one_thread(context: str, workers: int):
    options = loader_options(workers, seed=0, multiprocessing_context=context)
    found = list(torch.utils.data.DataLoader(Threads(), batch_size=None, **options))
    assert found == [[index % workers, 1, 1] for index in range(4)]


def test_another_split_can_be_tested(tmp_path: Path):
    def names(**arguments: Any) -> list[str]:
        data = module(tmp_path, **arguments)
        data.setup("test")
        return [name for batch in data.test_dataloader() for name in batch["names"]]

    assert len(names()) == 1
    assert len(names(test_split="train")) == 5
    assert not set(names()) & set(names(test_split="train"))


def test_loading_leaves_the_global_random_state_alone(tmp_path: Path):
    loader = module(tmp_path).train_dataloader()
    before = torch.get_rng_state()
    list(loader)
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize(("accumulate", "batches"), [(1, 50), (3, 150)])
def test_one_epoch_is_the_run_where_the_trainer_counts_steps(tmp_path: Path, accumulate: int, batches: int):
    data = with_trainer(module(tmp_path), max_steps=50, accumulate_grad_batches=accumulate)
    assert len(data.train_dataloader()) == batches


def test_a_set_smaller_than_a_batch_still_fills_it(tmp_path: Path):
    data = whole(tmp_path, [(20, 30)] * 3, batch_size=8)
    assert [len(batch["names"]) for batch in data.train_dataloader()] == [8]


def test_processes_see_different_images(tmp_path: Path):
    names = []
    for rank in range(2):
        data = with_trainer(whole(tmp_path, [(20, 30)] * 8), global_rank=rank, world_size=2)
        loaders = (data.train_dataloader(), data.val_dataloader(), data.predict_dataloader())
        names.append([{name for batch in loader for name in batch["names"]} for loader in loaders])
    for first, second in zip(*names, strict=True):
        assert len(first) == len(second) == 4
        assert not first & second


def test_images_can_be_sent_to_workers_that_do_not_fork(tmp_path: Path):
    data = module(tmp_path)
    for loader, key in ((data.train_dataloader(), (1, 2)), (data.val_dataloader(), 0)):
        copied = pickle.loads(pickle.dumps(loader.dataset))
        assert torch.equal(copied[key]["image"], loader.dataset[key]["image"])


def test_crop_size_may_be_a_rectangle(tmp_path: Path):
    assert next(iter(module(tmp_path, crop_size=(8, 24)).train_dataloader()))["images"].shape == (2, 3, 8, 24)


def test_preprocessing_reaches_every_loader(tmp_path: Path):
    data = module(tmp_path, preprocessing=Preprocessing(resize=(80, 40), mean=(0.0,), std=(1.0,)))
    for loader in (data.val_dataloader(), data.test_dataloader(), data.predict_dataloader()):
        assert next(iter(loader))["images"].shape == (1, 1, 40, 60)
    assert next(iter(data.train_dataloader()))["images"].shape == (2, 1, 16, 16)


def test_preprocessing_may_be_replaced_before_a_loader_is_made(tmp_path: Path):
    data = module(tmp_path)
    data.setup("predict")
    data.preprocessing = Preprocessing(resize=(80, 40))
    assert next(iter(data.predict_dataloader()))["sizes"] == [(40, 60)]


def test_augmentation_settings_reach_the_images(tmp_path: Path):
    changing, plain = (
        digests(whole(tmp_path, [(20, 30)] * 6, crop_size=30, augmentation=settings), epochs=2)
        for settings in (RecipeAugmentation(), STILL)
    )
    assert set(plain[0]) == set(plain[1])
    assert set(changing[0]) != set(changing[1])


def test_files_are_checked_in_setup(tmp_path: Path):
    data = module(tmp_path)
    (tmp_path / "masks" / "03.png").unlink()
    with pytest.raises(ValueError, match=r"1 images without a mask \(03\)"):
        data.setup("fit")


def test_unknown_values_are_named_when_read_by_a_worker(tmp_path: Path):
    data = whole(tmp_path, [(20, 30)] * 4, num_workers=1)
    save(tmp_path / "masks" / "03.png", np.full((20, 30), 7, np.uint8))
    with pytest.raises(ValueError, match=r"got 7 \(600 pixels\) in .*03\.png"):
        list(data.train_dataloader())


class Failing(MaskFolder):
    """A reader that fails on one file, without a word of which."""

    @staticmethod
    def read_image(path: Path, channels: int) -> np.ndarray:
        return np.zeros((20, 30, channels // (path.stem != "03")), np.uint8)


@pytest.mark.parametrize("num_workers", [0, 1])
def test_what_fails_without_a_name_is_named(tmp_path: Path, num_workers: int):
    folders = mask_folders(tmp_path, [(20, 30)] * 4)
    folders |= {"val_images": folders["images"], "val_masks": folders["masks"]}
    data = Failing(**folders, num_workers=num_workers, crop_size=16)
    for loader in (data.train_dataloader(), data.val_dataloader(), data.predict_dataloader()):
        with pytest.raises(ZeroDivisionError) as caught:
            list(loader)
        told = "".join([str(caught.value), *getattr(caught.value, "__notes__", [])])
        assert f"while reading {tmp_path}/images/03.png" in told


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"batch_size": 0}, "data.batch_size must be at least 1, got 0"),
        ({"eval_batch_size": 0}, "data.eval_batch_size must be at least 1"),
        ({"crop_size": (16, 0)}, "data.crop_size must be at least 1, got 0"),
        ({"num_workers": -1}, "data.num_workers must be at least 0"),
        ({"seed": -1}, "data.seed must be at least 0"),
    ],
)
def test_bad_settings_are_refused(tmp_path: Path, arguments: dict, message: str):
    with pytest.raises(ValueError, match=message):
        module(tmp_path, **arguments)


class Tiles(SegmentationDataModule):
    """A data set as a user would write it."""

    def __init__(self, folder: str, **common: Any) -> None:
        super().__init__(classes=ClassList.from_names(["field", "road"]), **common)
        self.folder = folder

    def pairs(self, split: Split) -> Sequence[Pair]:
        return match_pairs(f"{self.folder}/images", f"{self.folder}/masks")

    @staticmethod
    def read_mask(path: str | Path) -> np.ndarray:
        return np.load(Path(path).with_suffix(".npy"))


def test_a_data_set_of_ones_own_overrides_pairs_and_reading(tmp_path: Path):
    mask_folders(tmp_path, [(8, 8)] * 2)
    for index in range(2):
        np.save(tmp_path / "masks" / f"{index:02d}.npy", np.full((8, 8), index))
    data = Tiles(str(tmp_path), num_workers=1, crop_size=8, augmentation=STILL)
    assert sorted(next(iter(data.train_dataloader()))["masks"].unique().tolist()) == [0, 1]
    assert [mask.unique().tolist() for batch in data.val_dataloader() for mask in batch["masks"]] == [[0], [1]]


@pytest.mark.parametrize("data", ["src.data.MaskFolder", f"{__name__}.Tiles", "src.data.ImageFolder"])
def test_every_argument_is_a_flag(tmp_path: Path, data: str):
    folders = mask_folders(tmp_path, [(20, 30)] * 3)
    own = {"src.data.MaskFolder": folders, f"{__name__}.Tiles": {"folder": str(tmp_path)}}
    flags = own.get(data, {"images": folders["images"]}) | {
        "crop_size": "[16, 24]",
        "batch_size": "3",
        "preprocessing.resize": "[80, 40]",
        "augmentation.flip": "0",
    }
    parser = ArgumentParser()
    parser.add_subclass_arguments(SegmentationDataModule, "data")
    config = parser.parse_args([f"--data={data}", *(f"--data.{key}={value}" for key, value in flags.items())])
    built = parser.instantiate(config).data
    assert built.crop_size == (16, 24)
    assert built.batch_size == 3
    assert built.preprocessing == Preprocessing(resize=(80, 40))
    assert built.augmentation == RecipeAugmentation(flip=0)
    assert isinstance(built, ImageFolder) or "data.init_args.classes" not in parser.get_defaults()
