"""One label per pixel: training, validation at the labels' original size, and prediction."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

import torch
from lightning.pytorch import LightningModule
from lightning.pytorch.utilities import rank_zero_info
from lightning.pytorch.utilities.types import OptimizerLRScheduler
from torch import Tensor, nn

from src.classes import ClassList
from src.data.batch import IGNORE_INDEX, Batch
from src.inference import label_map
from src.inference.checkpoint import load_checkpoint, task_settings
from src.losses import CrossEntropy
from src.metrics import PixelConfusion, Scores
from src.models import Segmenter
from src.models.compiled import uncompiled
from src.models.rebuilding import built, take_weights
from src.models.section import SECTION, checked, checkpoint_section
from src.models.settings import RecordsSettings, plain
from src.optim import OptimizerRecipe, SwinRecipe
from src.preprocessing import Preprocessing
from src.tasks.comparison import check_fits, check_same, differences
from src.weights.options import LoadOptions

ONLY_AT_START = ("weights", "weights_options")
"""Arguments of the task that a checkpoint does not hold: its own weights take their place."""


class SemanticSegmentation(RecordsSettings, LightningModule):
    """Trains a segmenter on images and masks, scores it, and predicts label maps. Pixels labelled 255 do not count.

    Logged: ``train/loss``, ``train/loss_decoder``, ``train/loss_auxiliary``, ``train/lr``; and with ``val/`` or
    ``test/`` before it, from one confusion matrix over the whole set at the labels' original size, ``miou``,
    ``accuracy``, ``mean_accuracy`` and ``iou/<class>`` for every class (NaN where a class is in no label and no
    prediction).

    Args:
        model: the network.
        classes: names and colours of the classes, in the order of the model's outputs; or its ``to_dict()``.
        preprocessing: how images became inputs, written into the checkpoint; or its ``to_dict()``.
        loss: a module of ``(logits (B, K, h, w), masks (B, H, W))``; None is ``CrossEntropy()``.
        auxiliary_weight: weight of the auxiliary head's loss.
        optimizer: builds optimizer and schedule; None is ``SwinRecipe()``, the published recipe.
        weights: published weights to start training from, see ``python -m src.convert_weights --list``: one of these
            names, a file, a folder, an address, ``hf:owner/name[@revision]`` or ``timm:name``; None starts from random
            ones.
        weights_options: how ``weights`` are loaded.

    Raises:
        ValueError: the classes or the channels do not fit the model.
    """

    def __init__(
        self,
        model: Segmenter,
        classes: ClassList | dict[str, Any],
        preprocessing: Preprocessing | dict[str, Any] | None = None,
        loss: nn.Module | None = None,
        auxiliary_weight: float = 0.4,
        optimizer: OptimizerRecipe | None = None,
        weights: str | None = None,
        weights_options: LoadOptions = LoadOptions(),  # noqa: B008
    ) -> None:
        super().__init__()
        self.model = model
        self.classes = ClassList.from_dict(classes) if isinstance(classes, Mapping) else classes
        kept = Preprocessing.from_dict(preprocessing) if isinstance(preprocessing, Mapping) else preprocessing
        self.preprocessing = kept or Preprocessing()
        self.loss = loss or CrossEntropy(ignore_index=IGNORE_INDEX)
        self.auxiliary_weight = auxiliary_weight
        self.optimizer = optimizer or SwinRecipe()
        self.weights = weights
        self.weights_options = weights_options
        self.started_from: dict[str, Any] | None = None
        check_fits(model, self.classes, self.preprocessing)
        self.confusion = PixelConfusion(len(self.classes), IGNORE_INDEX)
        self.scores: Scores | None = None

    def forward(self, images: Tensor, sizes: list[tuple[int, int]] | None = None) -> Tensor:
        """Logits ``(B, num_classes, h, w)`` at the decoder's stride.

        Args:
            images: ``(B, C, H, W)`` float32, normalised.
            sizes: true height and width of each image in pixels, where the batch is padded.
        """
        return self.model(images, sizes).logits

    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        """The loss of one batch, the auxiliary head's included.

        Args:
            batch: images and masks of one size.
            batch_idx: place in the epoch.

        Raises:
            ValueError: the loss is not finite, which is looked at every ``trainer.log_every_n_steps`` batches.
        """
        losses = self.losses(batch)
        every = max(1, self.trainer.log_every_n_steps)  # type: ignore[attr-defined]
        if batch_idx % every == 0 and not torch.isfinite(losses["loss"]):
            raise ValueError(
                f"the loss must be finite, got {losses['loss'].item()} at step {self.trainer.global_step}, images "
                f"{', '.join(batch['names'])}; lower model.optimizer.lr, lengthen its warm-up, or look at these images."
            )
        for name, value in losses.items():
            self.log(f"train/{name}", value.detach(), prog_bar=name == "loss")
        self.log("train/lr", self.trainer.optimizers[0].param_groups[0]["lr"])
        return losses["loss"]

    def losses(self, batch: Batch) -> dict[str, Tensor]:
        """``loss``, the weighted sum, and its parts ``loss_decoder`` and, where there is one, ``loss_auxiliary``.

        Args:
            batch: images and masks of one size.
        """
        output = self.model(batch["images"], batch["sizes"])
        decoder = self._loss(output.logits, batch["masks"])
        if output.auxiliary_logits is None:
            return {"loss": decoder, "loss_decoder": decoder}
        auxiliary = self._loss(output.auxiliary_logits, batch["masks"])
        total = decoder + self.auxiliary_weight * auxiliary
        return {"loss": total, "loss_decoder": decoder, "loss_auxiliary": auxiliary}

    def _loss(self, logits: Tensor, masks: Tensor | list[Tensor]) -> Tensor:
        try:
            loss: Tensor = self.loss(logits, masks)
            return loss
        except Exception as error:
            if logits.shape[-2:] != masks[0].shape[-2:]:
                error.add_note(
                    "logits come at the decoder's stride, masks at the image's size; src.losses.FullSizeLoss wraps a "
                    "loss that wants both of one size"
                )
            raise

    def predict_labels(self, batch: Batch) -> list[Tensor]:
        """A label map ``(H_i, W_i)`` int64 for each image, at the original size of its file.

        Args:
            batch: images of any sizes.
        """
        logits = self(batch["images"], batch["sizes"]).split(1)
        sizes = zip(logits, batch["sizes"], batch["original_sizes"], strict=True)
        return [
            label_map(self.model.true_region(one, size), size, original_size)[0] for one, size, original_size in sizes
        ]

    def predict_step(self, batch: Batch, batch_idx: int) -> list[Tensor]:
        """A label map ``(H_i, W_i)`` int64 for each image, at the original size of its file.

        Args:
            batch: images of any sizes; none where no image of the batch can be read.
            batch_idx: place in the epoch.
        """
        return self.predict_labels(batch) if batch["names"] else []

    def validation_step(self, batch: Batch, batch_idx: int) -> dict[str, list[Tensor]]:
        """Counts one batch at the labels' original size and returns its label maps under ``labels``.

        Args:
            batch: images of any sizes, one mask ``(H_i, W_i)`` for each.
            batch_idx: place in the epoch.
        """
        predictions = self.predict_labels(batch)
        for prediction, mask in zip(predictions, batch["masks"], strict=True):
            self.confusion.update(prediction[None], mask[None])
        return {"labels": predictions}

    test_step = validation_step

    def on_validation_epoch_start(self) -> None:
        """Forgets what was counted before, by the sanity check for example."""
        self.confusion.reset()

    def on_validation_epoch_end(self) -> None:
        """Logs the scores of the set."""
        self._log_scores("val")

    on_test_epoch_start = on_validation_epoch_start

    def on_test_epoch_end(self) -> None:
        """Logs the scores of the set."""
        self._log_scores("test")

    def _log_scores(self, stage: str) -> None:
        self.scores = scores = Scores.from_confusion(self.confusion.compute())
        means = {name: getattr(scores, name) for name in ("miou", "accuracy", "mean_accuracy")}
        self.log_dict({f"{stage}/{name}": value.float() for name, value in means.items()}, prog_bar=True)
        ious = zip(self.classes.names, scores.iou.float(), strict=True)
        self.log_dict({f"{stage}/iou/{name}": value for name, value in ious})
        if scores.absent and not self.trainer.sanity_checking:
            names = ", ".join(self.classes.names[index] for index in scores.absent)
            rank_zero_info(f"{stage}: in no label and no prediction, so not in the means: {names}")

    def configure_optimizers(self) -> OptimizerLRScheduler:
        """Optimizer and schedule of the recipe; the schedule is stepped after every optimizer step."""
        optimizer, schedule = self.optimizer.build(self.model, int(self.trainer.estimated_stepping_batches))
        # Counting the batches made the loader; it must be made anew to take up its place in a run that is resumed.
        self.trainer.fit_loop._combined_loader = None
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}

    def setup(self, stage: str) -> None:
        """Compares the classes with those of the data; before training also sees that the task can be saved, and loads
        the weights that it starts from.

        Args:
            stage: fit, validate, test or predict.

        Raises:
            FileNotFoundError: there are no such weights.
            ValueError: the data have other classes than the model, a part does not tell how it was built, or the
                weights do not fit.
        """
        classes = getattr(getattr(self.trainer, "datamodule", None), "classes", None)
        if stage != "predict" and classes is not None:
            must = "data.classes must be the classes that the model was trained on"
            check_same(self.classes.names, classes.names, must, "Give the data of the model, or train on these.")
        if stage == "fit":
            self.on_save_checkpoint({})
            self.start_from_weights()

    def start_from_weights(self) -> None:
        """Loads ``weights``, once. Where a run goes on, its checkpoint's come over them.

        Raises:
            FileNotFoundError: there are no such weights.
            ValueError: they cannot be read, or do not fit the model.
        """
        if self.weights is None or self.started_from is not None:
            return
        report = self.weights_options.load(self.model, self.weights, self.classes)
        rank_zero_info(report)
        self.started_from = {"source": report.source, "layout": report.layout, "coverage": report.coverage}

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Writes what is needed to build the task again, in plain types.

        Args:
            checkpoint: what the trainer is about to save.
        """
        section = checkpoint_section(self.model, self.classes, self.preprocessing)
        task = plain(self.settings, "model")
        for name in ONLY_AT_START:
            task["init_args"].pop(name, None)
        checkpoint[SECTION] = section | {"task": task, "started_from": self.started_from}

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Compares the checkpoint with this task, and takes its weights.

        Args:
            checkpoint: what was saved; it is brought to today's format.

        Raises:
            ValueError: classes or model differ, or it is damaged, of another program or of a newer release.
        """
        path = getattr(self._trainer, "ckpt_path", None) or "the checkpoint"
        checkpoint |= checked(checkpoint, path)
        saved = checkpoint[SECTION]
        self.started_from = saved.get("started_from")
        remedy = "Start a run from these weights with --model.weights, or give the data of the checkpoint."
        must = "ckpt_path must hold a model of the data's classes"
        check_same(tuple(saved["classes"]["names"]), self.classes.names, must, remedy)
        if take := getattr(uncompiled(self.model.encoder), "take_pretrained_windows", None):
            take(saved["model"])
        if differing := sorted(differences(saved["model"], plain(self.model, "model"))):
            raise ValueError(
                f"ckpt_path must hold the model that the config describes, got one that differs in "
                f"{', '.join(differing)}; give the config of its run."
            )
        if self.strict_loading and "state_dict" in checkpoint:
            take_weights(self, checkpoint["state_dict"], path)  # lightning does it again, with errors of torch's own

    @classmethod
    def load_from_checkpoint(cls, checkpoint_path: str | Path, map_location: Any = "cpu", **overrides: Any) -> Self:  # type: ignore[override]
        """The task that was saved, with its weights, on the CPU unless told otherwise.

        Args:
            checkpoint_path: a checkpoint of this toolkit.
            map_location: device of the weights.
            **overrides: arguments of the task that replace the saved ones.

        Raises:
            FileNotFoundError: there is no such file.
            ImportError: the task has a part from a package that is not installed.
            ValueError: the file is cut, damaged, of another program or of a newer release.
        """
        checkpoint = load_checkpoint(checkpoint_path, map_location)
        task = built(task_settings(checkpoint, checkpoint_path), cls, checkpoint_path, **overrides)
        take_weights(task, checkpoint["state_dict"], checkpoint_path)
        return task
