"""This toolkit's model, in the ways in which its own commands use it."""

import copy
import functools
from typing import Any

import torch
from torch import Tensor, nn

from src.classes import ClassList
from src.data.batch import Batch
from src.inference import label_map, resize_logits
from src.layers.size import Size
from src.measurement.contender import Contender
from src.measurement.described_model import model_of_configs
from src.measurement.inputs import Inputs
from src.measurement.options import Options
from src.models import Execution, FCNHead, Segmenter, SwinTransformer, UPerNetDecoder, swin_upernet
from src.optim import SwinRecipe
from src.tasks import SemanticSegmentation

_NANO: dict[str, Any] = {"embed_dim": 12, "depths": (1, 1, 2, 1), "num_heads": (1, 2, 3, 4)}
_RATES = ("drop_rate", "attn_drop_rate", "drop_path_rate", "dropout")


def build_model(options: Options) -> Segmenter:
    """The model that is asked for, weights drawn from one seed, every rate of dropout 0.

    Without dropout the loss of a training step can be held against another library's.

    Args:
        options: the size, or configs that describe a model.

    Raises:
        FileNotFoundError: there is no such config.
        ValueError: a config describes no model.
    """
    torch.manual_seed(0)
    if options.configs:
        model = model_of_configs(options.configs, options.num_classes)
    elif options.model == "nano":
        decoder = functools.partial(UPerNetDecoder, channels=16)
        head = functools.partial(FCNHead, channels=8)
        model = Segmenter(SwinTransformer(**_NANO), decoder, head, num_classes=options.num_classes)
    else:
        model = swin_upernet(options.model, options.num_classes)  # type: ignore[arg-type]
    torch.manual_seed(0)
    return type(model).from_settings(_without_dropout(model.settings))


def _without_dropout(settings: Any) -> Any:
    if isinstance(settings, dict):
        return {key: 0.0 if key in _RATES else _without_dropout(value) for key, value in settings.items()}
    return [_without_dropout(value) for value in settings] if isinstance(settings, list) else settings


class Ours(Contender):
    """The task of ``src.fit`` and ``src.validate`` around a model.

    Args:
        options: device, precision and classes.
        model: the model; it stays as it is.
        numerics: ``exact`` or ``fast``.
    """

    takes_layout = False
    rows = ("features", "logits", "full_logits", "label_map", "training", "evaluation")

    def __init__(self, options: Options, model: Segmenter, numerics: str = "exact") -> None:
        super().__init__(options, prepared(copy.deepcopy(model).to(options.device), numerics, options.compile), True)
        classes = ClassList.from_names([f"class {index}" for index in range(options.num_classes)])
        self.task = SemanticSegmentation(self.model, classes, self.preprocessing).to(options.device)  # type: ignore[arg-type]

    def features(self, images: Tensor) -> Tensor:
        """The encoder's coarsest map.

        Args:
            images: normalised ``(B, 3, H, W)``.
        """
        features: list[Tensor] = self.model.encoder(images)  # type: ignore[operator]
        return features[-1]

    def logits(self, images: Tensor) -> Tensor:
        """Scores at the decoder's stride.

        Args:
            images: normalised ``(B, 3, H, W)``.
        """
        return self.task(images)

    def full_logits(self, images: Tensor) -> Tensor:
        """Scores ``(B, K, H, W)``.

        Args:
            images: normalised ``(B, 3, H, W)``.
        """
        return resize_logits(self.task(images), (images.shape[-2], images.shape[-1]))

    def label_map(self, images: Tensor) -> Tensor:
        """Labels ``(B, H, W)``, without logits of full size.

        Args:
            images: normalised ``(B, 3, H, W)``.
        """
        return label_map(self.task(images), (images.shape[-2], images.shape[-1]))

    def evaluate(self, inputs: Inputs) -> Tensor:
        """A step of ``src.validate``; gives its labels ``(h, w)``."""
        images = self.preprocessing(inputs.photograph)[None].to(self.options.device)
        size = (images.shape[-2], images.shape[-1])
        original: Size = (inputs.labels.shape[-2], inputs.labels.shape[-1])
        batch = _batch(images, [inputs.labels], size, original)
        labels: Tensor = self.task.validation_step(batch, 0)["labels"][0]
        return labels

    def loss(self, images: Tensor, masks: Tensor) -> Tensor:
        """The loss of ``src.fit``, the auxiliary head's in it.

        Args:
            images: normalised ``(B, 3, H, W)``.
            masks: labels ``(B, H, W)``.
        """
        size = (images.shape[-2], images.shape[-1])
        return self.task.losses(_batch(images, masks, size, size))["loss"]

    def make_optimizer(self) -> torch.optim.Optimizer:
        """The recipe's AdamW."""
        return SwinRecipe(warmup=0.0).build(self.model, 1_000_000)[0]


def prepared(model: Segmenter, numerics: str, compile: bool) -> nn.Module:
    """A model as it is to be run.

    Args:
        model: the model, which may be changed.
        numerics: ``exact`` or ``fast``.
        compile: send it through ``torch.compile``.
    """
    return Execution(numerics=numerics, compile=compile).prepare(model)  # type: ignore[arg-type]


def _batch(images: Tensor, masks: Any, size: Size, original: Size) -> Batch:
    names = [str(index) for index in range(len(images))]
    return {
        "images": images,
        "masks": masks,
        "sizes": [size] * len(images),
        "original_sizes": [original] * len(images),
        "names": names,
        "unreadable": {},
    }
