"""What is made again for the backward pass changes memory and nothing else."""

import copy
from typing import get_args

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from src.models.swin import SwinTransformer
from src.models.swin_block import Recompute
from src.models.swin_v2 import SwinTransformerV2
from tests.models.random_weights import randomise

SMALL = {"embed_dim": 8, "depths": (2, 2), "num_heads": (1, 2), "window_size": 4}
DROPS = {"drop_rate": 0.2, "attn_drop_rate": 0.1, "drop_path_rate": 0.5}
VERSIONS = [SwinTransformer, SwinTransformerV2]


def step(encoder, images, sizes=None):
    torch.manual_seed(5)
    loss = sum(level.square().mean() for level in encoder(images, sizes))
    encoder.zero_grad()
    loss.backward()
    return [loss.detach(), torch.rand(1), *(parameter.grad for parameter in encoder.parameters())]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("sizes", [None, [(37, 50), (20, 21), (37, 3)]])
@pytest.mark.parametrize("precision", [None, torch.bfloat16])
def test_losses_and_gradients_are_the_same_to_the_last_bit(version, sizes, precision):
    torch.manual_seed(0)
    encoder = randomise(version(**SMALL, **DROPS)).train()
    images = torch.randn(3, 3, 37, 50)
    results = {}
    for what in get_args(Recompute):
        encoder.recompute = what
        with torch.autocast("cpu", precision, enabled=precision is not None):
            results[what] = step(encoder, images, sizes)
    for what, result in results.items():
        assert all(torch.equal(a, b) for a, b in zip(result, results["nothing"], strict=True)), what


def flops(encoder, images):
    with FlopCounterMode(display=False) as counter:
        step(encoder, images)
    return counter.get_total_flops()


@pytest.mark.parametrize("version", VERSIONS)
def test_norms_and_gelu_are_made_again_without_a_product_and_mlps_with_one(version):
    encoder = version(**SMALL).train()
    images = torch.randn(1, 3, 32, 32)
    done = {}
    for what in get_args(Recompute):
        encoder.recompute = what
        done[what] = flops(encoder, images)
    first_layers = sum(
        2 * tokens * 4 * dim**2 for tokens, dim in ((64, 8), (16, 16)) for _ in range(2)
    )  # of the MLPs, two blocks each
    assert done["selective"] == done["nothing"]
    assert done["mlp"] == done["nothing"] + first_layers
    assert done["blocks"] > done["mlp"]


@pytest.mark.parametrize("version", VERSIONS)
def test_in_eval_mode_nothing_is_made_again(version):
    encoder = version(**SMALL).eval()
    images = torch.randn(1, 3, 32, 32)
    encoder.recompute = "nothing"
    expected = flops(encoder, images)
    encoder.recompute = "blocks"
    assert flops(encoder, images) == expected


def test_it_is_no_part_of_the_model():
    encoder = SwinTransformer(**SMALL)
    assert encoder.recompute == "mlp"
    before = copy.deepcopy(encoder.settings), list(encoder.state_dict())
    encoder.recompute = "blocks"
    assert (encoder.settings, list(encoder.state_dict())) == before
    assert [block.recompute for stage in encoder.layers for block in stage.blocks] == ["blocks"] * 4
    assert copy.deepcopy(encoder).recompute == "blocks"


def test_what_it_may_be_is_told():
    with pytest.raises(ValueError, match=r"recompute must be one of nothing, selective, .*, got 'all'; .*\.$"):
        SwinTransformer(**SMALL).recompute = "all"
