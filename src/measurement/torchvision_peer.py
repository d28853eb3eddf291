"""torchvision's Swin with our encoder's weights: it has no UPerNet, so the encoders alone are compared."""

from typing import Any

import torch.nn.functional as F
from torch import Tensor, nn

from src.layers.size import Size
from src.measurement.contender import Contender
from src.measurement.options import Options
from src.models import Segmenter, SwinTransformer
from src.weights.layouts import TORCHVISION


def build_peer(model: Segmenter) -> nn.Module:
    """A torchvision ``SwinTransformer`` of our encoder's sizes, with its weights.

    Raises:
        ValueError: torchvision has no such encoder.
    """
    from torchvision.models.swin_transformer import SwinTransformer as TorchvisionSwin

    encoder = model.encoder
    if not isinstance(encoder, SwinTransformer):
        raise ValueError(
            f"--against torchvision needs a SwinTransformer, got {type(encoder).__name__}; leave torchvision out."
        )
    told = encoder.settings["init_args"]
    stages: Any = encoder.layers
    peer = TorchvisionSwin(
        [told["patch_size"]] * 2,
        told["embed_dim"],
        list(told["depths"]),
        list(told["num_heads"]),
        list(stages[0].blocks[0].attn.window),
        mlp_ratio=told["mlp_ratio"],
    )
    encoder_state = {name: value for name, value in model.state_dict().items() if name.startswith("encoder.")}
    state, _ = TORCHVISION.to_theirs(encoder_state, "encoder")
    missing, unexpected = peer.load_state_dict(state, strict=False)
    lacking = [name for name in missing if not name.startswith(("norm.", "head."))]
    lacking = [name for name in lacking if not name.endswith("relative_position_index")]
    if unexpected or lacking:
        raise ValueError(
            f"--against torchvision needs weights that are the same on both sides, got {lacking + unexpected}; leave "
            f"torchvision out, or take another release of it."
        )
    peer.norm, peer.head = nn.Identity(), nn.Identity()
    return peer


def _shifts_covered(model: Segmenter, size: Size) -> bool:
    """Whether ours shifts windows that cover a map, which torchvision does not."""
    encoder: Any = model.encoder
    windows = [stage.blocks[0].attn.window for stage in encoder.layers]
    maps = (spec.size(*size) for spec in model.feature_specs)
    covered = any(side <= extent for sides, window in zip(maps, windows, strict=True)
                  for side, extent in zip(sides, window, strict=True))  # fmt: skip
    return bool(encoder.settings["init_args"]["shift_covered"]) and covered


class Torchvision(Contender):
    """The stages of torchvision's Swin, and our norm on the output of each, which torchvision does not have.

    Args:
        options: device, precision and classes.
        model: ours, whose weights it takes.
        tuned: see ``Contender``.
    """

    rows = ("features",)

    def __init__(self, options: Options, model: Segmenter, tuned: bool) -> None:
        super().__init__(options, build_peer(model), tuned)
        norms: list[Any] = [model.encoder.get_submodule(f"norm{i}") for i in range(len(model.feature_specs))]
        self._norms = [
            (norm.weight.detach().to(options.device), norm.bias.detach().to(options.device), norm.eps) for norm in norms
        ]
        self._maps = self.compiled(self._plain_maps)
        self._patch = model.feature_specs[0].stride
        self.same_function = not _shifts_covered(model, options.size)

    def features(self, images: Tensor) -> Tensor:
        """The encoder's coarsest map.

        Args:
            images: normalised ``(B, 3, H, W)``.
        """
        patch = self._patch
        images = F.pad(images, (0, -images.shape[3] % patch, 0, -images.shape[2] % patch))  # it drops what is left
        maps: list[Tensor] = self._maps(images)
        return maps[-1]

    def full_logits(self, images: Tensor) -> Tensor:
        """There are none.

        Args:
            images: normalised ``(B, 3, H, W)``.
        """
        raise NotImplementedError

    def loss(self, images: Tensor, masks: Tensor) -> Tensor:
        """There is none.

        Args:
            images: normalised ``(B, 3, H, W)``.
            masks: labels ``(B, H, W)``.
        """
        raise NotImplementedError

    def _plain_maps(self, images: Tensor) -> list[Tensor]:
        x, maps = images, []
        layers: Any = self.model.features
        for index, layer in enumerate(layers):
            x = layer(x)
            if index % 2:
                weight, bias, eps = self._norms[index // 2]
                normed = F.layer_norm(x, weight.shape, weight, bias, eps)
                maps.append(normed.permute(0, 3, 1, 2).contiguous())
        return maps
