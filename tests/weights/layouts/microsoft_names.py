"""Files in the names of Microsoft's code, which cannot be installed: written out here."""

import re

import torch

from src.models.swin import SwinTransformer
from src.models.swin_v2 import SwinTransformerV2
from tests.models.random_weights import randomise

DEPTHS = (2, 1, 1, 1)
SMALL = {"embed_dim": 8, "depths": DEPTHS, "num_heads": (1, 2, 2, 4)}
WINDOWS = [(7, 7)] * 4
ENDS = ("weight", "bias")


def encoder(version=1, **options):
    return randomise((SwinTransformer, SwinTransformerV2)[version - 1](**SMALL, window_size=7, **options))


def encoder_names(version):
    """The names of weights that both codes share, ``relative_position_index`` included."""
    names = {f"patch_embed.{part}.{end}" for part in ("proj", "norm") for end in ENDS}
    for i, depth in enumerate(DEPTHS):
        for j in range(depth):
            block = f"layers.{i}.blocks.{j}"
            for part in ("norm1", "attn.proj", "norm2", "mlp.fc1", "mlp.fc2"):
                names |= {f"{block}.{part}.{end}" for end in ENDS}
            own = ["qkv.weight", "relative_position_index"]
            if version == 1:
                own += ["qkv.bias", "relative_position_bias_table"]
            else:
                own += ["q_bias", "v_bias", "logit_scale", "relative_coords_table"]
                own += ["cpb_mlp.0.weight", "cpb_mlp.0.bias", "cpb_mlp.2.weight"]
            names |= {f"{block}.attn.{name}" for name in own}
        if i < 3:
            names |= {f"layers.{i}.downsample.{name}" for name in ("reduction.weight", "norm.weight", "norm.bias")}
    return names


def microsoft(version=1):
    """A file of an image classifier as Microsoft's code writes it, from an encoder of ours."""
    state = {}
    for name, value in encoder(version).state_dict().items():
        if not re.match(r"norm\d", name):
            name = name.replace("position_bias.relative", "relative").replace("position_bias.mlp", "cpb_mlp")
            state[name] = value
    for name in encoder_names(version) - state.keys():
        state[name] = torch.zeros(1)
    state["layers.0.blocks.1.attn_mask"] = torch.zeros(64, 49, 49)
    return state | {"norm.weight": torch.randn(64), "norm.bias": torch.randn(64), "head.weight": torch.randn(7, 64)}
