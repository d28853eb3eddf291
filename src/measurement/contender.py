"""What every model that is measured can be asked, whichever library it comes from.

Shapes: B images of H x W pixels, K classes.
"""

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torchmetrics.classification import MulticlassConfusionMatrix

from src.layers.size import Size
from src.measurement.inputs import Inputs, preprocessing
from src.measurement.options import Options

_LR = 6e-5
_DECAY = 0.01


class Contender(ABC):
    """A model with the ways in which its users ask for logits, labels and a training step.

    Subclasses say what each row of a table means for their library; here is what users of plain torch do.

    Args:
        options: device, precision and classes.
        model: the model, on the CPU.
        tuned: as quick as its library allows without writing it anew: ``torch.inference_mode``, memory laid out as
            ``options.layout`` says, a fused optimizer step, and ``torch.compile`` where that is asked for.

    Attributes:
        rows: the rows that it can do.
        same_function: whether its outputs, from the same weights, are ours.
        takes_layout: whether ``options.layout`` is meant for it.
        sizes: which sizes of images it takes, in words.
    """

    rows: tuple[str, ...] = ("full_logits", "label_map", "training", "evaluation")
    same_function = True
    takes_layout = True
    sizes = "any"

    def __init__(self, options: Options, model: nn.Module, tuned: bool) -> None:
        self.options = options
        self.tuned = tuned
        self.channels_last = tuned and self.takes_layout and options.layout == "channels_last"
        form = torch.channels_last if self.channels_last else torch.contiguous_format
        self.model = model.to(device=options.device).to(memory_format=form)
        self.optimizer: torch.optim.Optimizer | None = None
        self.confusion = MulticlassConfusionMatrix(options.num_classes, ignore_index=255, validate_args=False)
        self.confusion.to(options.device)
        self.preprocessing = preprocessing(options)

    @classmethod
    def rows_of(cls, tuned: bool) -> tuple[str, ...]:
        """The rows of its library.

        Args:
            tuned: as for the class.
        """
        return cls.rows

    @classmethod
    def takes(cls, size: Size) -> bool:
        """Whether its library takes images of a size.

        Args:
            size: height and width in pixels.
        """
        return True

    def prepare(self, row: str) -> None:
        """Puts the model into the state that a row wants, before anything is timed.

        The optimizer's state is made here, by a step on gradients of zero that changes no weight; gradients are None
        when it is done, and so at the start of every training step.

        Args:
            row: what comes.
        """
        training = row == "training"
        self.model.train(training)
        if training and self.optimizer is None:
            self.optimizer = self.make_optimizer()
            rates = [group["lr"] for group in self.optimizer.param_groups]
            for parameter in self.model.parameters():
                parameter.grad = torch.zeros_like(parameter)
            for group in self.optimizer.param_groups:
                group["lr"] = 0.0
            self.optimizer.step()
            for group, rate in zip(self.optimizer.param_groups, rates, strict=True):
                group["lr"] = rate
        self.model.zero_grad(set_to_none=True)

    def finish(self, row: str) -> None:
        """Gives back what a row needed alone: the optimizer's state.

        Args:
            row: what is over.
        """
        if row == "training":
            self.optimizer = None
        self.confusion.reset()

    def run(self, row: str, inputs: Inputs) -> Tensor:
        """Does a row once, and gives its outputs or its loss.

        Args:
            row: a row without ``_memory``.
            inputs: what to do it with.
        """
        if row == "training":
            return self._training_step(inputs)
        if row == "evaluation":
            with self._inference(), self._autocast():
                return self.evaluate(inputs)
        with self._inference(), self._autocast():
            asked: Callable[[Tensor], Tensor] = getattr(self, row)
            return asked(self._laid_out(inputs.images))

    def features(self, images: Tensor) -> Tensor:
        """The encoder's coarsest map; asked only of who has the row.

        Args:
            images: normalised ``(B, 3, H, W)``.
        """
        raise NotImplementedError

    def logits(self, images: Tensor) -> Tensor:
        """Scores ``(B, K, H / 4, W / 4)``; asked only of who has the row.

        Args:
            images: normalised ``(B, 3, H, W)``.
        """
        raise NotImplementedError

    @abstractmethod
    def full_logits(self, images: Tensor) -> Tensor:
        """Scores ``(B, K, H, W)``.

        Args:
            images: normalised ``(B, 3, H, W)``.
        """

    def label_map(self, images: Tensor) -> Tensor:
        """Labels ``(B, H, W)``.

        Args:
            images: normalised ``(B, 3, H, W)``.
        """
        return self.full_logits(images).argmax(1)

    def evaluate(self, inputs: Inputs) -> Tensor:
        """From a photograph to counts in a confusion matrix; gives its labels ``(h, w)``."""
        images = self.preprocessing(inputs.photograph)[None].to(self.options.device)
        labels = self.labels_at(self._laid_out(images), (inputs.labels.shape[-2], inputs.labels.shape[-1]))
        self.confusion.update(labels, inputs.labels[None])
        return labels[0]

    def labels_at(self, images: Tensor, size: Size) -> Tensor:
        """Labels ``(B, height, width)`` at the size of a file, as transformers' processors make them.

        Args:
            images: normalised ``(B, 3, H, W)``.
            size: height and width in pixels.
        """
        return F.interpolate(self.full_logits(images), size=size, mode="bilinear", align_corners=False).argmax(1)

    @abstractmethod
    def loss(self, images: Tensor, masks: Tensor) -> Tensor:
        """The training loss.

        Args:
            images: normalised ``(B, 3, H, W)``.
            masks: labels ``(B, H, W)``.
        """

    def make_optimizer(self) -> torch.optim.Optimizer:
        """AdamW with the recipe's numbers."""
        fused = True if self.tuned else None
        return torch.optim.AdamW(self.model.parameters(), lr=_LR, weight_decay=_DECAY, fused=fused)

    def compiled(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function itself, or compiled where that is asked for."""
        return torch.compile(function) if self.tuned and self.options.compile else function

    def _training_step(self, inputs: Inputs) -> Tensor:
        assert self.optimizer is not None, "prepare comes first"
        with self._autocast():
            loss = self.loss(self._laid_out(inputs.training_images), inputs.masks)
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return loss.detach()

    def _laid_out(self, images: Tensor) -> Tensor:
        return images.contiguous(memory_format=torch.channels_last) if self.channels_last else images

    def _inference(self) -> contextlib.AbstractContextManager[Any]:
        return torch.inference_mode() if self.tuned else torch.no_grad()

    def _autocast(self) -> contextlib.AbstractContextManager[Any]:
        if self.options.precision == "float32":
            return contextlib.nullcontext()
        return torch.autocast(self.options.device, getattr(torch, self.options.precision))
