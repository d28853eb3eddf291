"""Masks of a predict job, written as they come."""

import errno
import io
import shutil
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.callbacks import BasePredictionWriter
from PIL import Image
from torch import Tensor

from src.data.batch import Batch
from src.data.datamodule import SegmentationDataModule
from src.data.first_process import from_first
from src.data.pairs import Pair
from src.data.source import ReadImage
from src.files import written_beside
from src.inference.drawing import coloured, mask_image, overlaid
from src.inference.predict_job import FAILED, PredictJob, fingerprint, written_files
from src.models.settings import plain
from src.tasks import SemanticSegmentation

_SHOWN = 10


class PredictionWriter(BasePredictionWriter):
    """Writes each label map as an indexed PNG of the image's size, under the image's relative path.

    Its pixels are the ids of the classes, as in the masks of the data, so that it can be read as a mask;
    ``classes.txt`` beside the masks says which id is which class. ``a.jpg`` becomes ``a.png``; of ``a.jpg`` and
    ``a.tif`` in one folder, which come as ``a.jpg.png`` and ``a.tif.png``, one that has its mask already keeps it.

    A job that was stopped goes on where it stood: a mask is written beside its place and renamed, and one that is
    there, not older than its image, is not made again. ``.predict.json`` in the folder tells what made the masks; a job
    of another model, and files of another origin, are refused before anything is written. An image that cannot be read
    is passed over, and told at the end and in ``failed.txt``.

    The attribute ``failures`` tells, after the job and on every process, why an image has no mask.

    Args:
        output: folder of the masks.
        overlay: whether to write each image with its mask over it too, as ``<name>_overlay.jpg``.
        overwrite: whether to redo masks that are there already, whoever made them.

    Raises:
        ValueError: there is no folder, or the masks would lie among the images, or cannot be written.
    """

    def __init__(self, output: str, overlay: bool = False, overwrite: bool = False) -> None:
        super().__init__(write_interval="batch")
        if not str(output):
            raise ValueError("output must be a folder for the masks, got an empty name; give --output a folder.")
        self.output = Path(output)
        self.overlay = overlay
        self.overwrite = overwrite
        self.failures: dict[str, str] = {}
        self._pairs: dict[str, Pair] = {}
        self._readers: list[ReadImage] = []
        self._masks: dict[str, str] = {}
        self._num_done = self._num_written = 0
        self._start = 0.0

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        """Lets the data leave out the images that have their masks already.

        Args:
            trainer: the trainer, with a data module.
            pl_module: the task, with ``model`` and ``classes``.
            stage: fit, validate, test or predict.

        Raises:
            ValueError: there is no data module.
        """
        super().setup(trainer, pl_module, stage)
        if stage != "predict":
            return
        data = trainer.datamodule  # type: ignore[attr-defined]
        if not isinstance(data, SegmentationDataModule):
            raise ValueError(f"predict must be given a SegmentationDataModule to write masks, got {data}; give one.")
        self._start = time.monotonic()
        self._pairs = {pair.name: pair for pair in data.predict_pairs}
        self._readers = [source.read_image for source in data.sources()]
        self._num_done, self._num_written, self.failures = 0, 0, {}
        data.leave_out(lambda: self._done(trainer, cast("SemanticSegmentation", pl_module), data))

    def _done(self, trainer: Trainer, task: SemanticSegmentation, data: SegmentationDataModule) -> set[str]:
        """Settles the name of every mask before the first is made, and tells which images have theirs."""
        state = trainer.strategy.lightning_module_state_dict()  # a message between all processes, if sharded

        def planned() -> tuple[dict[str, str], set[str]]:
            self._check(task, data)
            return self._job(trainer, task, data, state).prepare(self.overwrite)

        self._masks, done = from_first(trainer, planned)
        self._num_done = len(done)
        return done

    def _check(self, task: SemanticSegmentation, data: SegmentationDataModule) -> None:
        output = self.output.resolve()
        for searched in data.searched_folders():
            if (folder := searched.resolve()) in (output, *output.parents):
                raise ValueError(
                    f"output must not lie in the folder of the images, got {self.output} in {folder}, where "
                    f"masks could replace images or be taken for images; give another folder."
                )
        names = Counter(pair.name for pair in data.predict_pairs)
        if doubled := next((name for name, count in names.items() if count > 1), None):
            raise ValueError(f"names of images must be unique, got {doubled!r} more than once; rename one.")
        blank = np.zeros((1, 1), np.int64)
        mask_image(blank, task.classes)
        if self.overlay:
            coloured(blank, task.classes.palette)

    def _job(
        self, trainer: Trainer, task: SemanticSegmentation, data: SegmentationDataModule, state: dict[str, Any]
    ) -> PredictJob:
        weights = {name: value for name, value in state.items() if name.startswith("model.")}
        settings = {
            "weights": fingerprint(weights),
            "model": _told(task),
            "classes": task.classes.to_dict(),
            "preprocessing": data.preprocessing.to_dict(),
            "precision": trainer.precision,
        }
        images = {name: pair.image for name, pair in self._pairs.items()}
        checkpoint = str(trainer.ckpt_path or "a model without a checkpoint")
        return PredictJob(self.output, images, settings, checkpoint, task.classes, self.overlay)

    def write_on_batch_end(
        self,
        trainer: Trainer,
        pl_module: LightningModule,
        prediction: Sequence[Tensor],
        batch_indices: Sequence[int] | None,
        batch: Batch,
        batch_idx: int,
        dataloader_idx: int,
    ) -> None:
        """Writes the masks of one batch.

        Args:
            trainer: the trainer.
            pl_module: the task, with ``classes``.
            prediction: one label map ``(H_i, W_i)`` for each image that can be read.
            batch_indices: places of the images in the data set.
            batch: the images' names among others.
            batch_idx: place in the epoch.
            dataloader_idx: place among the loaders.

        Raises:
            ValueError: the folder cannot be written.
        """
        classes = cast("SemanticSegmentation", pl_module).classes
        self.failures |= batch.get("unreadable", {})
        for name, labels in zip(batch["names"], prediction, strict=True):
            pixels = labels.cpu().numpy()
            mask, overlay = written_files(self._masks[name])
            try:
                self._write(mask_image(pixels, classes), mask)
                if self.overlay:
                    picture = overlaid(self._read(name), pixels, classes.palette)
                    self._write(Image.fromarray(picture), overlay)
                self._num_written += 1
            except _ImageError as error:
                self.failures[name] = str(error)

    def _read(self, name: str) -> np.ndarray:
        pair = self._pairs[name]
        try:
            return self._readers[pair.source](pair.image, 3)
        except (OSError, ValueError) as error:
            raise _ImageError(error) from error

    def _write(self, picture: Image.Image, file: str) -> None:
        encoded = io.BytesIO()
        try:
            picture.save(encoded, format="PNG" if file.endswith(".png") else "JPEG")
        except OSError as error:
            raise _ImageError(f"{file} cannot be encoded ({error})") from error
        try:
            with written_beside(self.output / file) as beside:
                beside.write_bytes(encoded.getbuffer())
        except OSError as error:
            if error.errno == errno.ENAMETOOLONG:
                raise _ImageError(f"the name {file} is too long to be written; shorten the image's") from error
            raise ValueError(
                f"output must be a folder to write to, got {self.output}, where {file} cannot be written "
                f"({error.strerror}; {shutil.disk_usage(self.output).free} bytes are free); mend that, and the same "
                f"command goes on where it stopped."
            ) from error

    def teardown(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        """Says what was written, what failed, and where it is.

        Args:
            trainer: the trainer.
            pl_module: the task.
            stage: fit, validate, test or predict.
        """
        if stage != "predict":
            return
        trainer.datamodule.leave_out(frozenset)  # type: ignore[attr-defined]
        # not in on_predict_end, which a process without an image of its own does not come to
        ours = (self._num_written, self.failures)
        everyones = [trainer.strategy.broadcast(ours, src=rank) for rank in range(trainer.world_size)]
        self._num_written = sum(number for number, _ in everyones)
        self.failures = dict(sorted(item for _, failures in everyones for item in failures.items()))
        if trainer.is_global_zero:
            self._report()

    def _report(self) -> None:
        seconds = time.monotonic() - self._start
        failed = self.output / FAILED
        facts = [f"{self._num_done} more were there already"] if self._num_done else []
        if self.failures:
            told = (f"{name}: {reason}" for name, reason in self.failures.items())
            lines = ["".join(char if char.isprintable() else ascii(char)[1:-1] for char in line) for line in told]
            with written_beside(failed) as beside:
                beside.write_text("".join(f"{line}\n" for line in lines), "utf-8")
            print("\n".join(f"failed: {line}" for line in lines[:_SHOWN]))
            facts.append(f"{len(lines)} images failed, see {failed}")
        else:
            failed.unlink(missing_ok=True)
        rate = f", {self._num_written / seconds:.1f} images a second" if self._num_written else ""
        facts.append(f"{seconds:.1f} s{rate}")
        kinds = "masks and overlays" if self.overlay else "masks"
        print(f"{self._num_written} {kinds}: {self.output} ({'; '.join(facts)})")


class _ImageError(Exception):
    """What keeps one image from having its files; the others go on."""


def _told(task: SemanticSegmentation) -> Any:
    """How the model was built, where its parts tell."""
    try:
        return plain(task.model, "model")
    except ValueError:
        return None
