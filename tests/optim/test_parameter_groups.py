import copy

import pytest
import torch
from torch import nn
from torchvision.models.swin_transformer import SwinTransformerBlockV2

from src.models import swin_upernet
from src.optim import SwinRecipe
from src.optim.parameter_groups import parameter_groups, parameters_without_decay


@pytest.fixture(scope="module")
def model() -> nn.Module:
    return swin_upernet("tiny", num_classes=3, absolute_pos_embed=(8, 8))


def test_every_trainable_parameter_is_in_exactly_one_group(model):
    optimizer, _ = SwinRecipe().build(model, total_steps=10)
    grouped = [id(p) for group in optimizer.param_groups for p in group["params"]]
    assert len(grouped) == len(set(grouped))
    assert set(grouped) == {id(p) for p in model.parameters()}


def test_norms_of_the_encoder_and_position_parameters_do_not_decay(model):
    exempt = parameters_without_decay(model)
    by_published_names = {
        name
        for name, _ in model.named_parameters()
        if any(word in name for word in ("norm", "relative_position_bias_table", "absolute_pos_embed"))
    }
    assert exempt == by_published_names
    assert {group["name"]: group["weight_decay"] for group in parameter_groups(model, 0.05)} == {
        "decay": 0.05,
        "no_decay": 0.0,
    }


@pytest.fixture(scope="module")
def second() -> nn.Module:
    return swin_upernet(
        "tiny", num_classes=3, version=2, embed_dim=8, num_heads=(1, 1, 2, 2), absolute_pos_embed=(8, 8)
    )


def test_version_2_exempts_scales_and_the_networks_of_its_position_biases_too(second):
    words = ("norm", "logit_scale", "position_bias.mlp", "absolute_pos_embed")
    expected = {name for name, _ in second.named_parameters() if any(word in name for word in words)}
    assert parameters_without_decay(second) == expected
    assert {"encoder.layers.3.blocks.1.attn.position_bias.mlp.2.weight"} <= expected
    biases = {name for name, _ in second.named_parameters() if name.endswith(("q_bias", "v_bias"))}
    assert len(biases) == 24
    assert not biases & expected


def test_frozen_position_biases_are_left_out(second):
    model = copy.deepcopy(second)
    model.encoder.layers[0].requires_grad_(False)
    exempt = parameters_without_decay(model)
    assert exempt == {name for name in parameters_without_decay(second) if not name.startswith("encoder.layers.0.")}


def test_the_published_names_are_known_in_others_encoders():
    torchvision_block = SwinTransformerBlockV2(8, 2, [4, 4], [0, 0])
    exempt = parameters_without_decay(nn.ModuleDict({"encoder": torchvision_block}))
    assert {name.removeprefix("encoder.") for name in exempt} == {
        *("attn.logit_scale", "attn.cpb_mlp.0.weight", "attn.cpb_mlp.0.bias", "attn.cpb_mlp.2.weight"),
        *("norm1.weight", "norm1.bias", "norm2.weight", "norm2.bias"),
    }


def compiled(model: nn.Module) -> nn.Module:
    return torch.compile(model)


def compiled_inside(model: nn.Module) -> nn.Module:
    inside = copy.copy(model)
    inside._modules = dict(model._modules)
    inside.encoder = torch.compile(model.encoder)
    inside.encoder.norm0 = torch.compile(model.encoder.norm0)
    return inside


@pytest.mark.parametrize("compiler", [compiled, compiled_inside])
@pytest.mark.parametrize("version", ["model", "second"])
def test_a_compiled_model_has_the_same_groups(version, compiler, request):
    model = request.getfixturevalue(version)
    expected = parameter_groups(copy.deepcopy(model), 0.01)
    groups = parameter_groups(compiler(copy.deepcopy(model)), 0.01)
    assert parameters_without_decay(compiler(copy.deepcopy(model))) == parameters_without_decay(model)
    for group, other in zip(groups, expected, strict=True):
        assert [p.shape for p in group["params"]] == [p.shape for p in other["params"]]


def test_biases_and_norms_of_the_head_decay(model):
    exempt = parameters_without_decay(model)
    assert "encoder.layers.0.blocks.0.mlp.fc1.bias" not in exempt
    assert "decoder.fpn_bottleneck.bn.weight" not in exempt
    assert "auxiliary.conv_seg.bias" not in exempt


def test_norms_are_found_by_type_whatever_their_name():
    model = nn.ModuleDict({"encoder": nn.ModuleDict({"ln": nn.LayerNorm(3), "fc": nn.Linear(3, 3)})})
    assert parameters_without_decay(model) == {"encoder.ln.weight", "encoder.ln.bias"}


def test_frozen_parameters_are_left_out():
    model = nn.ModuleDict({"encoder": nn.Linear(2, 2), "decoder": nn.Linear(2, 2)})
    model["encoder"].requires_grad_(False)
    grouped = [p for group in parameter_groups(model, 0.01) for p in group["params"]]
    assert {id(p) for p in grouped} == {id(p) for p in model["decoder"].parameters()}


def test_options_of_the_recipe_reach_the_optimizer():
    model = nn.ModuleDict({"encoder": nn.Linear(2, 2)})
    optimizer, _ = SwinRecipe(lr=0.5, betas=(0.8, 0.9), weight_decay=0.3, warmup=0.0).build(model, 10)
    assert isinstance(optimizer, torch.optim.AdamW)
    group = optimizer.param_groups[0]
    assert (group["lr"], tuple(group["betas"]), group["weight_decay"]) == (0.5, (0.8, 0.9), 0.3)


@pytest.mark.parametrize(
    ("argument", "value"), [("lr", 0.0), ("weight_decay", -0.1), ("warmup", 1.5), ("warmup_ratio", -1.0)]
)
def test_values_out_of_range_are_named(argument, value):
    with pytest.raises(ValueError, match=rf"model\.optimizer\.{argument} must be .*got {value}; .*\.$"):
        SwinRecipe(**{argument: value})
