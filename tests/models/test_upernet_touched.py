"""A decoder whose modules are hooked, whose dropout stays on, or whose weights change where autograd does not look."""

import copy

import pytest
import torch
from torch import nn

from src.models.conv_module import ConvModule
from src.models.fcn_head import FCNHead
from src.models.features import FeatureSpec
from src.models.upernet import UPerNetDecoder
from tests.models.random_weights import randomise

SPECS = (FeatureSpec(6, 4), FeatureSpec(7, 8), FeatureSpec(8, 16))


def build(seed=0, **options):
    return randomise(UPerNetDecoder(SPECS, 5, **{"channels": 8, "dropout": 0.0} | options), seed).double()


def maps():
    generator = torch.Generator().manual_seed(1)
    sizes = ((9, 15), (5, 8), (3, 4))
    return [
        torch.randn(2, spec.channels, *size, generator=generator, dtype=torch.float64)
        for spec, size in zip(SPECS, sizes, strict=True)
    ]


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("gradients", [False, True])
def test_hooks_see_every_map_and_change_nothing(training, gradients):
    decoder, seen = build().train(training), {}
    with torch.set_grad_enabled(gradients):
        expected = copy.deepcopy(decoder)(maps())
        for name, module in decoder.named_modules():
            if isinstance(module, ConvModule):
                module.register_forward_hook(lambda _, __, output, name=name: seen.__setitem__(name, output.shape[2:]))
        result = decoder(maps())
    assert torch.allclose(result, expected, rtol=0, atol=1e-11 * expected.abs().max().item())
    assert seen["fpn_bottleneck"] == seen["fpn_convs.0"] == seen["lateral_convs.0"] == (9, 15)
    assert seen["bottleneck"] == (3, 4)
    assert len(seen) == 4 + 1 + 2 + 2 + 1


@torch.no_grad()
def test_dropout_that_stays_on_is_drawn_anew():
    decoder = build(dropout=0.5).eval()
    decoder.dropout.train()
    assert not torch.equal(decoder(maps()), decoder(maps()))
    decoder.dropout.eval()
    assert torch.equal(decoder(maps()), decoder(maps()))


def average(teacher, student):
    for own, other in zip(teacher.parameters(), student.parameters(), strict=True):
        own.data.mul_(0.9).add_(other.data, alpha=0.1)


def fused_step(teacher, student):
    with torch.enable_grad():
        loss = teacher(maps()).square().sum()
    with torch.no_grad():
        teacher(maps())
    loss.backward()
    torch.optim.AdamW(teacher.parameters(), lr=1e-2, fused=True).step()


@pytest.mark.parametrize("change", [average, fused_step])
def test_weights_that_change_unseen_by_autograd_count(change):
    teacher, student = build().eval(), build(seed=1)
    with torch.no_grad():
        before = teacher(maps())
    change(teacher, student)
    with torch.no_grad():
        after = teacher(maps())
        assert torch.equal(after, copy.deepcopy(teacher)(maps()))
    assert (after - before).abs().max() > 1e-3


@torch.no_grad()
def test_a_classifier_of_another_kind_is_called():
    decoder = build().eval()
    expected = decoder(maps())
    decoder.conv_seg = nn.Sequential(decoder.conv_seg, nn.Sigmoid())
    assert torch.allclose(decoder(maps()), expected.sigmoid())


@pytest.mark.parametrize("training", [False, True])
def test_hooks_on_the_auxiliary_heads_convolutions_are_called(training):
    head = randomise(FCNHead(SPECS, 5, channels=8, num_convs=2, dropout=0.0)).double().train(training)
    expected, seen = copy.deepcopy(head)(maps()), []
    head.convs[0].register_forward_hook(lambda _, __, output: seen.append(output.shape))
    assert torch.allclose(head(maps()), expected, rtol=0, atol=1e-11 * expected.abs().max().item())
    assert seen == [(2, 8, 3, 4)]
