"""transformers' UPerNet-Swin with our weights: the same function."""

from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from src.layers.size import Size
from src.measurement.contender import Contender
from src.measurement.inputs import Inputs
from src.measurement.options import Options
from src.models import FCNHead, Segmenter, SwinTransformer, UPerNetDecoder
from src.weights.layouts import TRANSFORMERS_IN_MEMORY

_UNUSED = "backbone.swin.layernorm."  # parameters that its UPerNet has and does not use
_AUXILIARY_WEIGHT = 0.4


def build_peer(model: Segmenter, attention: str | None = None) -> nn.Module:
    """A ``UperNetForSemanticSegmentation`` of a model's sizes, with its weights.

    Args:
        model: a Swin with UPerNet and an auxiliary head.
        attention: transformers' ``attn_implementation``; None for its default.

    Raises:
        ValueError: transformers has no such model.
    """
    import transformers

    encoder, decoder, head = model.encoder, model.decoder, model.auxiliary
    if not isinstance(encoder, SwinTransformer) or not isinstance(decoder, UPerNetDecoder):
        raise ValueError(
            f"--against transformers needs a SwinTransformer with a UPerNetDecoder, got {type(encoder).__name__} with "
            f"{type(decoder).__name__}; give --against none."
        )
    if not isinstance(head, FCNHead):
        raise ValueError("--against transformers needs an auxiliary FCNHead, got none; give --against none.")
    told = encoder.settings["init_args"]
    windows = {tuple(stage.blocks[0].attn.window) for stage in encoder.layers}  # type: ignore[union-attr, index]
    if len(windows) > 1 or len(set(next(iter(windows)))) > 1 or told["padded_keys"] != "attend":
        raise ValueError(
            f"--against transformers needs square windows, the same in all stages, whose padded keys attend, got "
            f"{sorted(windows)} and padded_keys {told['padded_keys']}; give --against none."
        )
    swin_config: Any = transformers.SwinConfig  # its fields and those of what it derives from
    upernet_config: Any = transformers.UperNetConfig
    swin = swin_config(
        embed_dim=told["embed_dim"],
        depths=list(told["depths"]),
        num_heads=list(told["num_heads"]),
        window_size=next(iter(windows))[0],
        mlp_ratio=told["mlp_ratio"],
        qkv_bias=told["qkv_bias"],
        drop_path_rate=0.0,
        out_features=[f"stage{index + 1}" for index in range(len(told["depths"]))],
    )
    config = upernet_config(
        backbone_config=swin,
        hidden_size=decoder.settings["init_args"]["channels"],
        pool_scales=list(decoder.settings["init_args"]["pool_sizes"]),
        auxiliary_in_channels=encoder.feature_specs[head.level].channels,
        auxiliary_channels=head.settings["init_args"]["channels"],
        auxiliary_num_convs=head.settings["init_args"]["num_convs"],
        auxiliary_loss_weight=_AUXILIARY_WEIGHT,
        loss_ignore_index=255,
        num_labels=model.num_classes,
    )
    peer: Any = transformers.UperNetForSemanticSegmentation(config)
    if attention is not None:
        peer.backbone.set_attn_implementation(attention)  # the config's word does not reach the backbone
    fill(peer, model)
    built: nn.Module = peer
    return built


def fill(peer: nn.Module, model: Segmenter) -> None:
    """Gives transformers' model our weights.

    Args:
        peer: transformers' UPerNet-Swin.
        model: ours, of the same sizes.

    Raises:
        ValueError: a weight of either side has no place on the other.
    """
    state, left = TRANSFORMERS_IN_MEMORY.to_theirs(model.state_dict(), "segmentor")
    missing, unexpected = peer.load_state_dict(state, strict=False)
    lacking = [name for name in missing if not name.startswith(_UNUSED) and not name.endswith("num_batches_tracked")]
    if left or unexpected or lacking:
        raise ValueError(
            f"--against transformers needs weights that are the same on both sides, got {left + unexpected + lacking}; "
            f"give --against none, or another release of transformers."
        )


class Transformers(Contender):
    """As its model card and processor say it is used; or tuned: called at its parts, without the auxiliary head.

    Args:
        options: device, precision and classes.
        model: ours, whose weights it takes.
        tuned: see ``Contender``.
    """

    def __init__(self, options: Options, model: Segmenter, tuned: bool) -> None:
        super().__init__(options, build_peer(model, "sdpa" if tuned else None), tuned)
        if tuned:
            self.rows = ("features", "logits", *self.rows)
        self._stages = self.compiled(self._plain_stages)
        self._scores = self.compiled(self._plain_scores)
        self._whole = self.compiled(self.model)

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
