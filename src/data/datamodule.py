"""What all data sets share: loaders for training, evaluation and prediction. Lightning stands behind this file."""

from collections.abc import Callable, Collection, Sequence
from pathlib import Path, PurePosixPath
from typing import Any, Literal

from lightning.pytorch import LightningDataModule
from lightning.pytorch.utilities import rank_zero_info, rank_zero_warn
from torch.utils.data import DataLoader

from src.classes import ClassList
from src.data.batch import Item, collate_evaluation, collate_prediction, collate_training
from src.data.checks import check_files, raise_errors
from src.data.evaluation_dataset import EvaluationDataset, EvaluationItem
from src.data.first_process import from_first
from src.data.labels import LabelEncoder
from src.data.loader import TrainingLoader, loader_options, num_cores
from src.data.pairs import Pair
from src.data.samplers import EvaluationSampler, IterationSampler
from src.data.source import Source
from src.data.training_dataset import TrainingDataset
from src.data.transforms import RecipeAugmentation, TrainingTransform
from src.image_io import read_image, read_mask
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
            that is the id of a class. A class whose id is among them leaves the class list. With ``reduce_zero_label``
            they are counted as the ids are, one less than in the files, but for 255.
        reduce_zero_label: whether the mask files hold every id plus one, and 0 where there is no label.
        mapping: what further values in the mask files stand for, or other ones than their own id: the id or the name of
            a class, or null where there is no label, for example ``{255: 1, 7: road, 9: null}``. Each value is looked
            up once, so ``{1: 2, 2: 1}`` is a swap. Predicted masks hold the ids of the classes.
        check: what is looked at before training and scoring: ``fast`` a spread sample of the masks for a few seconds,
            ``full`` every image and mask, ``off`` nothing.
        batch_size: training images per process and step.
        eval_batch_size: images per process and step in evaluation and prediction, of any sizes.
        crop_size: height and width of training crops in pixels, or one number for both.
        preprocessing: resizing and normalisation; training varies the scale around ``resize``.
        augmentation: how training images are varied.
        draft: whether training decodes a JPEG of at least twice the size that its crop is cut from at a half, a quarter
            or an eighth, which is faster and smoother; scoring and predicting always decode the whole.
        max_image_pixels: most pixels that an image or mask file may have; None means what Pillow allows, twice
            ``PIL.Image.MAX_IMAGE_PIXELS``.
        num_workers: processes that read images for each loader, at most the cores there are for each device.
        persistent_workers: whether these processes live on from one pass over the data to the next.
        multiprocessing_context: how they are started; None as Python does. ``spawn`` is slower to start and safe where
            ``fork`` hangs.
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
        ...         images, masks = f"{self.folder}/{split}/images", f"{self.folder}/{split}/masks"
        ...         return find_images(images, "data.folder") if split == "predict" else match_pairs(images, masks)
    """

    read_image = staticmethod(read_image)
    read_mask = staticmethod(read_mask)

    def __init__(
        self,
        classes: ClassList,
        ignored_ids: list[int] | None = None,
        reduce_zero_label: bool = False,
        mapping: dict[int, int | str | None] | None = None,
        check: Literal["fast", "full", "off"] = "fast",
        batch_size: int = 2,
        eval_batch_size: int = 1,
        crop_size: int | tuple[int, int] = 512,
        preprocessing: Preprocessing = Preprocessing(),  # noqa: B008
        augmentation: RecipeAugmentation = RecipeAugmentation(),  # noqa: B008
        draft: bool = True,
        max_image_pixels: int | None = None,
        num_workers: int = 4,
        persistent_workers: bool = True,
        multiprocessing_context: Literal["fork", "spawn", "forkserver"] | None = None,
        seed: int = 0,
        test_split: Literal["train", "val"] = "val",
    ) -> None:
        super().__init__()
        self.allow_zero_length_dataloader_with_multiple_devices = True  # more processes than images
        self.crop_size = (crop_size, crop_size) if isinstance(crop_size, int) else (crop_size[0], crop_size[1])
        _check_least(1, batch_size=batch_size, eval_batch_size=eval_batch_size, crop_size=min(self.crop_size))
        _check_least(0, num_workers=num_workers, seed=seed)
        if max_image_pixels is not None:
            _check_least(1, max_image_pixels=max_image_pixels)
        self.encoder = LabelEncoder(classes, ignored_ids, reduce_zero_label, mapping) if len(classes) else None
        self.classes = self.encoder.classes if self.encoder else classes
        self.check = check
        self.batch_size = batch_size
        self.eval_batch_size = eval_batch_size
        self.preprocessing = preprocessing
        self.augmentation = augmentation
        self.draft = draft
        self.max_image_pixels = max_image_pixels
        self.num_workers = num_workers
        self.persistent_workers = persistent_workers
        self.multiprocessing_context = multiprocessing_context
        self.seed = seed
        self.test_split = test_split
        self._found: dict[Split, Sequence[Pair]] = {}
        self._left_out: Callable[[], Collection[str]] = frozenset

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
        """Finds the files that ``stage`` needs, and looks into them before training or scoring as ``check`` says.

        Args:
            stage: ``fit``, ``validate``, ``test`` or ``predict``; None for none of them yet.

        Raises:
            FileNotFoundError: a folder does not exist or holds no image.
            ValueError: images and masks do not belong together, or cannot be trained on.
        """
        for split in (self.test_split,) if stage == "test" else _STAGES.get(stage, ()):
            self._files(split)
        if stage in ("fit", "validate", "test") and self.check != "off":
            self._look_into_files(stage)

    def _look_into_files(self, stage: str) -> None:
        if stage == "fit":
            splits = {"training": self._files("train"), "validation": self._files("val")}
        else:
            splits = {"scored": self._files(self.test_split if stage == "test" else "val")}
        channels, full = self.preprocessing.channels, self.check == "full"
        findings = from_first(self.trainer, lambda: check_files(splits, self._labelled(), self.classes, channels, full))
        for finding in findings:
            if finding.severity == "warning":
                rank_zero_warn(finding.message)
            elif finding.severity == "note":
                rank_zero_info(finding.message)
        raise_errors(findings)

    def train_dataloader(self) -> DataLoader[Item]:
        """Varied crops: the whole run where the trainer has ``max_steps``, else every image about once."""
        pairs = self._files("train")
        transform = TrainingTransform(self.augmentation, self.preprocessing, self.crop_size, self.seed)
        dataset = TrainingDataset(pairs, self._labelled(), self.preprocessing, transform, self.crop_size, self.draft)
        rank, world_size = self._place()
        num_samples = self._num_batches(len(pairs), world_size) * self.batch_size
        return TrainingLoader(
            dataset,
            batch_size=self.batch_size,
            sampler=self.training_sampler(pairs, num_samples, rank, world_size),
            collate_fn=collate_training,
            **self._loader_options(),
        )

    def val_dataloader(self) -> DataLoader[EvaluationItem]:
        """Whole images with masks at the original size, each once."""
        return self._evaluation_loader("val", self._labelled())

    def test_dataloader(self) -> DataLoader[EvaluationItem]:
        """Whole images of ``test_split`` with masks at the original size, each once."""
        return self._evaluation_loader(self.test_split, self._labelled())

    def predict_dataloader(self) -> DataLoader[EvaluationItem]:
        """Whole images without masks, each once; one that cannot be read comes as the reason why."""
        return self._evaluation_loader("predict", self.sources())

    @property
    def predict_pairs(self) -> Sequence[Pair]:
        """The images to predict, those left out too."""
        return self._files("predict")

    def leave_out(self, names: Callable[[], Collection[str]]) -> None:
        """Leaves images out of prediction, in place of what was left out before.

        Args:
            names: gives the images' names, the same ones on every process; asked whenever a loader is made, when a
                checkpoint's weights are in the model.
        """
        self._left_out = names

    def searched_folders(self) -> set[Path]:
        """Folders in which images to predict are looked for; masks written there could be taken for images."""
        ends = [
            (pair.image, pair.name if pair.image.as_posix().endswith(pair.name) else "") for pair in self.predict_pairs
        ]
        return {image.parents[max(1, len(PurePosixPath(name).parts)) - 1] for image, name in ends}

    def sources(self) -> Sequence[Source]:
        """How the files of each data set of the run are read, in the order of ``Pair.source``."""
        return [Source(self.read_image, self.read_mask, self.encoder, self.max_image_pixels)]

    def training_sampler(self, pairs: Sequence[Pair], num_samples: int, rank: int, world_size: int) -> IterationSampler:
        """Which image comes when in training.

        Args:
            pairs: the training images.
            num_samples: how many samples one pass gives on this process.
            rank: number of this process.
            world_size: number of processes.
        """
        return IterationSampler(len(pairs), num_samples, self.seed, rank, world_size)

    def _evaluation_loader(self, split: Split, sources: Sequence[Source]) -> DataLoader[EvaluationItem]:
        pairs, predicts = self._files(split), split == "predict"
        if predicts:
            left_out = self._left_out()
            pairs = [pair for pair in pairs if pair.name not in left_out]
        return DataLoader(
            EvaluationDataset(pairs, sources, self.preprocessing, with_masks=not predicts),
            batch_size=self.eval_batch_size,
            sampler=EvaluationSampler(len(pairs), *self._place(), fill=not predicts),
            collate_fn=collate_prediction if predicts else collate_evaluation,
            **self._loader_options(),
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

    def _loader_options(self) -> dict[str, Any]:
        cores = num_cores() // max(1, getattr(self.trainer, "num_devices", 1))
        num_workers = min(self.num_workers, max(1, cores))
        return loader_options(num_workers, self.seed, self.persistent_workers, self.multiprocessing_context)

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
