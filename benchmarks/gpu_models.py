"""Our model and transformers' from the same weights, and how each is run. Needs torch and transformers alone."""

import copy
import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from src.inference.label_map import label_map
from src.losses import CrossEntropy
from src.measurement.transformers_model import AUXILIARY_WEIGHT
from src.models.execution import Execution
from src.models.fcn_head import FCNHead
from src.models.segmenter import Segmenter
from src.models.swin import SWIN_SIZES, SwinSize, SwinTransformer
from src.models.upernet import UPerNetDecoder

CLASSES = 150
SIZES = {**SWIN_SIZES, "nano": SwinSize(24, (2, 2, 2, 2), (1, 2, 3, 4))}


def ours(name: str) -> Segmenter:
    """The published model without dropout, with weights at random that all count in the output."""
    torch.manual_seed(0)
    size = SIZES[name]
    channels, auxiliary = (32, 16) if name == "nano" else (512, 256)
    window = 12 if name in ("base", "large") else 7
    encoder = SwinTransformer(*size, window_size=window, drop_path_rate=0.0)
    model = Segmenter(
        encoder,
        functools.partial(UPerNetDecoder, channels=channels, dropout=0.0),
        functools.partial(FCNHead, channels=auxiliary, dropout=0.0),
        num_classes=CLASSES,
    )
    for key, value in model.state_dict().items():
        if "relative_position_bias_table" in key:
            value.normal_()
        elif key.endswith("running_var"):
            value.uniform_(0.5, 1.5)
        elif key.endswith((".bias", "running_mean")):
            value.normal_(std=0.1)
        elif value.ndim > 1:
            value.normal_(std=value[0].numel() ** -0.5)
    return model.eval()


@dataclass(frozen=True)
class Side:
    """One way to run one model.

    Args:
        name: for the table.
        model: on its device.
        is_ours: whether it is ours.
    """

    name: str
    model: nn.Module
    is_ours: bool

    def logits(self, images: Tensor) -> Tensor:
        """Logits at full size."""
        logits = self.model(images).logits
        if not self.is_ours:
            return logits
        return nn.functional.interpolate(logits.float(), images.shape[-2:], mode="bilinear", align_corners=False)

    def labels(self, images: Tensor) -> Tensor:
        """Labels as a user of this model gets them."""
        if self.is_ours:
            return label_map(self.model(images).logits, (images.shape[-2], images.shape[-1]))
        return self.model(images).logits.argmax(1)

    def loss(self, images: Tensor, masks: Tensor) -> Tensor:
        """The loss with the auxiliary head's."""
        if not self.is_ours:
            return self.model(images, labels=masks).loss
        criterion, output = CrossEntropy(), self.model(images)
        return criterion(output.logits, masks) + AUXILIARY_WEIGHT * criterion(output.auxiliary_logits, masks)


def makers(model: Segmenter, peer: nn.Module, compiled: bool, graphs: bool) -> dict[str, Callable[[], Side]]:
    """What makes each side, the peer first; made when needed, since compiling takes long.

    Args:
        model: ours.
        peer: theirs.
        compiled: whether each goes through ``torch.compile``.
        graphs: whether CUDA graphs are tried too, which want ``compiled``.
    """

    def prepared(**settings: Any) -> nn.Module:
        return Execution(compile=compiled, **settings).prepare(copy.deepcopy(model))

    def other() -> nn.Module:
        own = copy.deepcopy(peer)
        return torch.compile(own, dynamic=False) if compiled else own  # type: ignore[return-value]

    found = {"transformers": lambda: Side("transformers", other(), False)}
    ways: dict[str, dict[str, Any]] = {"ours": {}, "ours fast": {"numerics": "fast"}}
    if not compiled:
        ways["ours fast, channels last"] = {"numerics": "fast", "channels_last": True}
    if graphs:
        ways["ours fast, graphs"] = {"numerics": "fast", "cuda_graphs": True}
    for name, settings in ways.items():
        found[name] = functools.partial(_ours, name, functools.partial(prepared, **settings))
    return found


def _ours(name: str, make: Callable[[], nn.Module]) -> Side:
    return Side(name, make(), True)
