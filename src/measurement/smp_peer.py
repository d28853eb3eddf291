"""segmentation-models-pytorch's UPerNet on timm's Swin, in its own weights: another function, for its cost alone."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from src.layers.size import Size
from src.measurement.contender import Contender
from src.measurement.options import Options
from src.models import Segmenter, SwinTransformer

_NAMES = {
    "tiny": "tu-swin_tiny_patch4_window7_224",
    "small": "tu-swin_small_patch4_window7_224",
    "base": "tu-swin_base_patch4_window7_224",
    "large": "tu-swin_large_patch4_window7_224",
}
_MULTIPLE = 32


def build_peer(options: Options, model: Segmenter) -> nn.Module:
    """UPerNet of smp with our number of channels on timm's Swin of our encoder's sizes, weights at random.

    Args:
        options: the size of the images and the number of classes.
        model: ours.

    Raises:
        ValueError: smp has no such model.
    """
    import segmentation_models_pytorch as smp

    encoder = model.encoder
    if not isinstance(encoder, SwinTransformer):
        raise ValueError(f"--against smp needs a SwinTransformer, got {type(encoder).__name__}; leave smp out.")
    told = encoder.settings["init_args"]
    peer: nn.Module = smp.UPerNet(
        _NAMES.get(options.model, _NAMES["tiny"]),
        encoder_weights=None,
        decoder_channels=model.decoder.settings["init_args"]["channels"],  # type: ignore[index]
        classes=model.num_classes,
        img_size=options.size,
        embed_dim=told["embed_dim"],
        depths=tuple(told["depths"]),
        num_heads=tuple(told["num_heads"]),
    )
    return peer


class Smp(Contender):
    """smp's UPerNet: other norms, padding after the shift, no auxiliary head.

    Args:
        options: device, precision and classes.
        model: ours, whose sizes it takes.
        tuned: see ``Contender``.
    """

    rows = ("full_logits", "label_map", "training")
    same_function = False
    sizes = f"a multiple of {_MULTIPLE}"

    def __init__(self, options: Options, model: Segmenter, tuned: bool) -> None:
        super().__init__(options, build_peer(options, model), tuned)
        self._whole = self.compiled(self.model)

    @classmethod
    def takes(cls, size: Size) -> bool:
        """Whether smp takes images of a size.

        Args:
            size: height and width in pixels.
        """
        return not any(side % _MULTIPLE for side in size)

    def full_logits(self, images: Tensor) -> Tensor:
        """Scores ``(B, K, H, W)``.

        Args:
            images: normalised ``(B, 3, H, W)``.
        """
        logits: Tensor = self._whole(images)
        return logits

    def loss(self, images: Tensor, masks: Tensor) -> Tensor:
        """Cross-entropy of its only output.

        Args:
            images: normalised ``(B, 3, H, W)``.
            masks: labels ``(B, H, W)``.
        """
        return F.cross_entropy(self._whole(images).to(torch.float32), masks, ignore_index=255)
