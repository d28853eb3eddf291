"""transformers' UPerNet-Swin with our weights: the same function."""

from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from src.layers.size import Size
from src.measurement.contender import Contender
from src.measurement.inputs import Inputs
from src.measurement.options import Options
from src.measurement.transformers_model import transformers_model
from src.models import Segmenter


class Transformers(Contender):
    """As its model card and processor say it is used; or tuned: called at its parts, without the auxiliary head.

    Args:
        options: device, precision and classes.
        model: ours, whose weights it takes.
        tuned: see ``Contender``.
    """

    def __init__(self, options: Options, model: Segmenter, tuned: bool) -> None:
        super().__init__(options, transformers_model(model), tuned)
        self._stages = self.compiled(self._plain_stages)
        self._scores = self.compiled(self._plain_scores)
        self._whole = self.compiled(self.model)

    @classmethod
    def rows_of(cls, tuned: bool) -> tuple[str, ...]:
        """The rows of transformers; its parts are called by who tunes it.

        Args:
            tuned: as for the class.
        """
        return ("features", "logits", *cls.rows) if tuned else cls.rows

    def features(self, images: Tensor) -> Tensor:
        """The encoder's coarsest map.

        Args:
            images: normalised ``(B, 3, H, W)``.
        """
        features: list[Tensor] = self._stages(images)
        return features[-1]

    def logits(self, images: Tensor) -> Tensor:
        """Scores at stride 4, before its ``forward`` resizes them.

        Args:
            images: normalised ``(B, 3, H, W)``.
        """
        scores: Tensor = self._scores(images)
        return scores

    def full_logits(self, images: Tensor) -> Tensor:
        """Scores ``(B, K, H, W)``.

        Args:
            images: normalised ``(B, 3, H, W)``.
        """
        if not self.tuned:
            logits: Tensor = self.model(images).logits
            return logits
        return F.interpolate(self.logits(images), size=images.shape[-2:], mode="bilinear", align_corners=False)

    def label_map(self, images: Tensor) -> Tensor:
        """Labels ``(B, H, W)``.

        Args:
            images: normalised ``(B, 3, H, W)``.
        """
        if not self.tuned:
            return super().label_map(images)
        scores = self.logits(images).contiguous(memory_format=torch.channels_last)  # resized several times faster so
        return F.interpolate(scores, size=images.shape[-2:], mode="bilinear", align_corners=False).argmax(1)

    def evaluate(self, inputs: Inputs) -> Tensor:
        """From a photograph to counts; gives its labels ``(h, w)``. Users let transformers' processor read it."""
        if self.tuned or not hasattr(self._library(), "SegformerImageProcessor"):
            return super().evaluate(inputs)
        size: Size = (inputs.labels.shape[-2], inputs.labels.shape[-1])
        images = self._processed(inputs.photograph, self.preprocessing.input_size(size)).to(self.options.device)
        labels = self.labels_at(images, size)
        self.confusion.update(labels, inputs.labels[None])
        return labels[0]

    def loss(self, images: Tensor, masks: Tensor) -> Tensor:
        """Its own loss, the auxiliary head's in it.

        Args:
            images: normalised ``(B, 3, H, W)``.
            masks: labels ``(B, H, W)``.
        """
        loss: Tensor = self._whole(images, labels=masks).loss
        return loss

    def labels_at(self, images: Tensor, size: Size) -> Tensor:
        """Labels ``(B, height, width)`` at the size of a file.

        Args:
            images: normalised ``(B, 3, H, W)``.
            size: height and width in pixels.
        """
        if not self.tuned:
            return super().labels_at(images, size)
        scores = self.logits(images).contiguous(memory_format=torch.channels_last)
        scores = F.interpolate(scores, size=images.shape[-2:], mode="bilinear", align_corners=False)
        return F.interpolate(scores, size=size, mode="bilinear", align_corners=False).argmax(1)

    def _plain_stages(self, images: Tensor) -> list[Tensor]:
        maps: list[Tensor] = self.model.backbone(images).feature_maps  # type: ignore[operator]
        return maps

    def _plain_scores(self, images: Tensor) -> Tensor:
        scores: Tensor = self.model.decode_head(self.model.backbone(images).feature_maps)  # type: ignore[operator]
        return scores

    def _processed(self, photograph: np.ndarray, size: Size) -> Tensor:
        mean, std = ([value / 255 for value in values] for values in (self.preprocessing.mean, self.preprocessing.std))
        processor = self._library().SegformerImageProcessor(
            size={"height": size[0], "width": size[1]}, image_mean=mean, image_std=std
        )
        pixels: Tensor = processor(images=photograph, return_tensors="pt")["pixel_values"]
        return pixels

    @staticmethod
    def _library() -> Any:
        import transformers

        return transformers
