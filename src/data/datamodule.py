"""What all data sets share: loaders for training, evaluation and prediction. Lightning stands behind this file."""

import os
from collections.abc import Sequence
from typing import Literal

from lightning.pytorch import LightningDataModule
from torch.utils.data import DataLoader

from src.classes import ClassList
from src.data.batch import Item, collate_evaluation, collate_training
from src.data.evaluation_dataset import EvaluationDataset
from src.data.image_io import read_image, read_mask
from src.data.labels import LabelEncoder
from src.data.loader import TrainingLoader, loader_options
from src.data.pairs import Pair
from src.data.samplers import EvaluationSampler, IterationSampler
from src.data.source import Source
from src.data.training_dataset import TrainingDataset
from src.data.transforms import RecipeAugmentation, TrainingTransform
from src.preprocessing import Preprocessing

Split = Literal["train", "val", "predict"]

_STAGES: dict[str | None, tuple[Split, ...]] = {
    "fit": ("train", "val"),
    "validate": ("val",),
    "predict": ("predict",),
}


class SegmentationDataModule(LightningDataModule):
    """Base of all data sets. One of your own needs a class list and the method ``pairs``.

    Files in a format that Pillow does not read need the static methods ``read_image`` or ``read_mask`` too. Random
    choices follow from ``seed`` alone, so that the number of workers changes nothing. Use the trainer with
    ``use_distributed_sampler=False``: the loaders share out the images themselves. The attribute ``classes`` is the
    list without ignored classes, in the order of a model's outputs; ``preprocessing`` may be replaced until a loader
    is made.

    Args:
        classes: the classes; their ids are the values in the mask files.
        ignored_ids: values in the mask files without a class, left out of training and scores; None means 255, unless
            that is the id of a class. A class whose id is among them leaves the class list.
        reduce_zero_label: whether the mask files hold every id plus one, and 0 where there is no label.
        batch_size: training images per process and step.
        eval_batch_size: images per process and step in evaluation and prediction, of any sizes.
        crop_size: height and width of training crops in pixels, or one number for both.
        preprocessing: resizing and normalisation; training varies the scale around ``resize``.
        augmentation: how training images are varied.
        num_workers: processes that read images for each loader, at most as many as the machine has cores.
        seed: of the order of the images, the augmentation and the choice of validation images, 0 or more.
        test_split: the images that ``test`` scores, whole and at their original size.

    Raises:
        ValueError: an argument is out of range.

    Example:
        >>> class Tiles(SegmentationDataModule):
        ...     def __init__(self, folder: str, **common: Any) -> None:
        ...         super().__init__(classes=ClassList.from_names(["field", "road"]), **common)
        ...         self.folder = folder
        ...
        ...     def pairs(self, split: Split) -> Sequence[Pair]:
        ...         return match_pairs(f"{self.folder}/{split}/tiles", f"{self.folder}/{split}/labels")
    """

    allow_zero_length_dataloader_with_multiple_devices = True

    read_image = staticmethod(read_image)
    read_mask = staticmethod(read_mask)

    def __init__(
        self,
        classes: ClassList,
        ignored_ids: list[int] | None = None,
        reduce_zero_label: bool = False,
        batch_size: int = 2,
        eval_batch_size: int = 1,
        crop_size: int | tuple[int, int] = 512,
        preprocessing: Preprocessing = Preprocessing(),  # noqa: B008
        augmentation: RecipeAugmentation = RecipeAugmentation(),  # noqa: B008
        num_workers: int = 4,
        seed: int = 0,
        test_split: Literal["train", "val"] = "val",
    ) -> None:
        super().__init__()
        self.crop_size = (crop_size, crop_size) if isinstance(crop_size, int) else (crop_size[0], crop_size[1])
        _check_least(1, batch_size=batch_size, eval_batch_size=eval_batch_size, crop_size=min(self.crop_size))
        _check_least(0, num_workers=num_workers, seed=seed)
        self.encoder = LabelEncoder(classes, ignored_ids, reduce_zero_label) if len(classes) else None
        self.classes = self.encoder.classes if self.encoder else classes
        self.batch_size = batch_size
        self.eval_batch_size = eval_batch_size
        self.preprocessing = preprocessing
        self.augmentation = augmentation
        self.num_workers = min(num_workers, os.cpu_count() or 1)
        self.seed = seed
        self.test_split = test_split
        self._found: dict[Split, Sequence[Pair]] = {}

    @property
    def num_classes(self) -> int:
        """Number of classes, ignored ones left out."""
        return len(self.classes)

    def pairs(self, split: Split) -> Sequence[Pair]:
        """The files of a split, in a fixed order. Data sets override this.

        Args:
            split: ``train``, ``val``, or ``predict``, where masks are not needed.
        """
        raise NotImplementedError(f"{type(self).__name__} must override the method `pairs`.")

    def setup(self, stage: str | None = None) -> None:
        """Finds the files that ``stage`` needs.

        Args:
            stage: ``fit``, ``validate``, ``test`` or ``predict``; None for none of them yet.

        Raises:
            FileNotFoundError: a folder does not exist or holds no image.
            ValueError: images and masks do not belong together.
        """
        for split in (self.test_split,) if stage == "test" else _STAGES.get(stage, ()):
            self._files(split)

    def train_dataloader(self) -> DataLoader[Item]:
        """Varied crops: the whole run where the trainer has ``max_steps``, else every image about once."""
        pairs = self._files("train")
        transform = TrainingTransform(self.augmentation, self.preprocessing, self.crop_size, self.seed)
        dataset = TrainingDataset(pairs, self._labelled(), self.preprocessing, transform, self.crop_size)
        rank, world_size = self._place()
        num_samples = self._num_batches(len(pairs), world_size) * self.batch_size
        return TrainingLoader(
            dataset,
            batch_size=self.batch_size,
            sampler=self.training_sampler(pairs, num_samples, rank, world_size),
            collate_fn=collate_training,
            **loader_options(self.num_workers, self.seed),
        )

    def val_dataloader(self) -> DataLoader[Item]:
        """Whole images with masks at the original size, each once."""
        return self._evaluation_loader("val", self._labelled())

    def test_dataloader(self) -> DataLoader[Item]:
        """Whole images of ``test_split`` with masks at the original size, each once."""
        return self._evaluation_loader(self.test_split, self._labelled())

    def predict_dataloader(self) -> DataLoader[Item]:
        """Whole images without masks, each once."""
        return self._evaluation_loader("predict", self.sources())

    def sources(self) -> Sequence[Source]:
        """How the files of each data set of the run are read, in the order of ``Pair.source``."""
        return [Source(self.read_image, self.read_mask, self.encoder)]

    def training_sampler(self, pairs: Sequence[Pair], num_samples: int, rank: int, world_size: int) -> IterationSampler:
        """Which image comes when in training.

        Args:
            pairs: the training images.
            num_samples: how many samples one pass gives on this process.
            rank: number of this process.
            world_size: number of processes.
        """
        return IterationSampler(len(pairs), num_samples, self.seed, rank, world_size)

    def _evaluation_loader(self, split: Split, sources: Sequence[Source]) -> DataLoader[Item]:
        pairs = self._files(split)
        return DataLoader(
            EvaluationDataset(pairs, sources, self.preprocessing, with_masks=split != "predict"),
            batch_size=self.eval_batch_size,
            sampler=EvaluationSampler(len(pairs), *self._place()),
            collate_fn=collate_evaluation,
            **loader_options(self.num_workers, self.seed),
        )

    def _files(self, split: Split) -> Sequence[Pair]:
        if split not in self._found:
            self._found[split] = self.pairs(split)
        return self._found[split]

    def _labelled(self) -> Sequence[Source]:
        sources = self.sources()
        if any(source.encoder is None for source in sources):
            raise ValueError(
                f"{type(self).__name__} has no masks and serves predict only; use data with masks instead."
            )
        return sources

    def _place(self) -> tuple[int, int]:
        return (0, 1) if self.trainer is None else (self.trainer.global_rank, self.trainer.world_size)

    def _num_batches(self, num_images: int, world_size: int) -> int:
        if self.trainer is not None and self.trainer.max_steps > 0:
            return self.trainer.max_steps * self.trainer.accumulate_grad_batches
        return -(-num_images // (self.batch_size * world_size))


def _check_least(least: int, **values: int) -> None:
    for key, value in values.items():
        if value < least:
            raise ValueError(f"data.{key} must be at least {least}, got {value}; raise it.")
