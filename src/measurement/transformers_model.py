"""transformers' UPerNet-Swin of a model's sizes and weights: the same function. Needs torch and transformers alone."""

from typing import Any

from torch import nn

from src.models.fcn_head import FCNHead
from src.models.segmenter import Segmenter
from src.models.swin import SwinTransformer
from src.models.upernet import UPerNetDecoder
from src.weights.layouts import TRANSFORMERS_BACKBONE, TRANSFORMERS_IN_MEMORY

AUXILIARY_WEIGHT = 0.4
_UNUSED = "backbone.swin.layernorm."  # parameters that its UPerNet has and does not use
_BUFFERS = ("num_batches_tracked", "relative_position_index")


def transformers_model(model: Segmenter) -> nn.Module:
    """A ``UperNetForSemanticSegmentation`` of a model's sizes, with its weights; its attention is fused by default.

    Args:
        model: a Swin with UPerNet and an auxiliary head.

    Raises:
        ValueError: transformers has no such model.
    """
    import transformers

    encoder, decoder, head = model.encoder, model.decoder, model.auxiliary
    if not isinstance(encoder, SwinTransformer) or not isinstance(decoder, UPerNetDecoder):
        raise ValueError(
            f"transformers' UPerNet needs a SwinTransformer with a UPerNetDecoder, got {type(encoder).__name__} with "
            f"{type(decoder).__name__}; leave transformers out (--against none)."
        )
    if not isinstance(head, FCNHead):
        raise ValueError(
            "transformers' UPerNet needs an auxiliary FCNHead, got none; leave transformers out (--against none)."
        )
    told = encoder.settings["init_args"]
    fixed = {"patch_size": 4, "in_channels": 3, "shift_covered": True, "absolute_pos_embed": None}
    for name, value in fixed.items():
        if told.get(name, value) != value:
            raise ValueError(
                f"transformers' Swin must have {name} {value}, got {told[name]}; leave transformers out (--against "
                f"none)."
            )
    stages: Any = encoder.layers
    windows = {tuple(stage.blocks[0].attn.window) for stage in stages}
    if len(windows) > 1 or len(set(next(iter(windows)))) > 1 or told["padded_keys"] != "attend":
        raise ValueError(
            f"transformers' Swin needs square windows, the same in all stages, whose padded keys attend, got "
            f"{sorted(windows)} and padded_keys {told['padded_keys']}; leave transformers out (--against none)."
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
        auxiliary_loss_weight=AUXILIARY_WEIGHT,
        loss_ignore_index=255,
        num_labels=model.num_classes,
    )
    made: nn.Module = transformers.UperNetForSemanticSegmentation(config)
    _fill(made, model, transformers.__version__)
    return made


def _fill(made: nn.Module, model: Segmenter, release: str) -> None:
    """Gives transformers' model our weights, by the names of its releases."""
    apart: list[list[str]] = []
    for layout in (TRANSFORMERS_IN_MEMORY, TRANSFORMERS_BACKBONE):
        state, left = layout.to_theirs(model.state_dict(), "segmentor")
        missing, more = made.state_dict().keys() - state.keys(), state.keys() - made.state_dict().keys()
        lacking = [name for name in missing if not name.startswith(_UNUSED) and not name.endswith(_BUFFERS)]
        apart.append([*left, *sorted(lacking), *sorted(more)])
        if not apart[-1]:
            made.load_state_dict(state, strict=False)
            return
    fewest = min(apart, key=len)
    raise ValueError(
        f"transformers' UPerNet must have the weights of this model by the names of release 5.24, got release "
        f"{release} and {len(fewest)} names of one side alone, such as {', '.join(fewest[:3])}; leave transformers out "
        f"(--against none), or take another release of it."
    )
