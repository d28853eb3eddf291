"""Our names in the libraries that the models are compared with."""

import re

import torch
from torch import Tensor

State = dict[str, Tensor]


def torchvision_swin(state: State) -> State:
    """The encoder's weights, of either version, under torchvision's names; its output norms have none there."""
    renamed = {}
    for ours, value in state.items():
        if re.match(r"norm\d", ours):
            continue
        name = re.sub(r"^layers\.(\d)\.blocks", lambda match: f"features.{2 * int(match[1]) + 1}", ours)
        name = re.sub(r"^layers\.(\d)\.downsample", lambda match: f"features.{2 * int(match[1]) + 2}", name)
        name = name.replace("patch_embed.proj", "features.0.0").replace("patch_embed.norm", "features.0.2")
        name = name.replace("attn.position_bias.mlp", "attn.cpb_mlp").replace("attn.position_bias.", "attn.")
        name = name.replace("mlp.fc1", "mlp.0").replace("mlp.fc2", "mlp.3")
        if "attn.q_bias" in name:  # one bias, whose part for the keys is set to zero when it is used
            parts = [value, torch.full_like(value, 7.0), state[ours.replace("q_bias", "v_bias")]]
            renamed[name.replace("q_bias", "qkv.bias")] = torch.cat(parts)
        elif "attn.v_bias" not in name:
            renamed[name] = value
    return renamed


def transformers_swin_v2(state: State) -> State:
    """The weights of version 2 under the names of transformers' ``Swinv2Backbone``, which has no output norms."""
    renamed = {}
    for name, value in state.items():
        if re.match(r"norm\d", name):
            continue
        name = re.sub(r"^layers", "encoder.layers", name)
        name = name.replace("patch_embed.proj", "embeddings.patch_embeddings.projection")
        name = name.replace("patch_embed.norm", "embeddings.norm")
        name = name.replace("norm1", "layernorm_before").replace("norm2", "layernorm_after")
        name = name.replace("mlp.fc1", "intermediate.dense").replace("mlp.fc2", "output.dense")
        name = name.replace("attn.proj", "attention.output.dense").replace("attn.", "attention.self.")
        name = name.replace("position_bias.mlp", "continuous_position_bias_mlp")
        name = name.replace("q_bias", "query.bias").replace("v_bias", "value.bias")
        if "self.qkv" in name:
            for part, weight in zip(("query", "key", "value"), value.chunk(3), strict=True):
                renamed[name.replace("self.qkv", f"self.{part}")] = weight
        else:
            renamed[name] = value
    return renamed


def timm_swin_v2(state: State) -> State:
    """The weights of version 2 under timm's names; its output norms have none there."""
    renamed = {}
    for name, value in state.items():
        if not re.match(r"norm\d", name):
            name = re.sub(r"^layers\.(\d)\.downsample", lambda match: f"layers.{int(match[1]) + 1}.downsample", name)
            renamed[name.replace("position_bias.mlp", "cpb_mlp")] = value
    return renamed


def transformers_swin(state: State) -> State:
    """The encoder's weights under the names of transformers' ``SwinBackbone``."""
    renamed = {}
    for name, value in state.items():
        name = re.sub(r"^norm(\d)", lambda match: f"hidden_states_norms.stage{int(match[1]) + 1}", name)
        name = re.sub(r"^layers", "swin.encoder.layers", name)
        name = name.replace("patch_embed.proj", "swin.embeddings.patch_embeddings.projection")
        name = name.replace("patch_embed.norm", "swin.embeddings.norm")
        name = name.replace("norm1", "layernorm_before").replace("norm2", "layernorm_after")
        name = name.replace("attn.proj", "attention.o_proj")
        name = name.replace("attn.position_bias", "attention.relative_position_bias")
        if name == "absolute_pos_embed":
            renamed["swin.embeddings.position_embeddings"] = value.flatten(2).transpose(1, 2)
        elif "attn.qkv" in name:
            for letter, part in zip("qkv", value.chunk(3), strict=True):
                renamed[name.replace("attn.qkv", f"attention.{letter}_proj")] = part
        else:
            renamed[name] = value
    return renamed


def transformers_upernet(state: State) -> State:
    """A segmenter's weights under the names of transformers' ``UperNetForSemanticSegmentation``."""
    encoder = {name.removeprefix("encoder."): value for name, value in state.items() if name.startswith("encoder.")}
    renamed = {f"backbone.{name}": value for name, value in transformers_swin(encoder).items()}
    for name, value in state.items():
        if not name.startswith("encoder."):
            name = name.replace("decoder.", "decode_head.").replace("auxiliary.", "auxiliary_head.")
            renamed[name.replace(".bn.", ".batch_norm.").replace("conv_seg", "classifier")] = value
    return renamed


def load(peer: torch.nn.Module, state: State, without: str) -> None:
    """Loads every weight; what the peer has beyond them must match the pattern ``without``."""
    missing, unexpected = peer.load_state_dict(state, strict=False)
    assert not unexpected
    assert all(re.search(without, name) for name in missing), missing
