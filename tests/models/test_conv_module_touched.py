"""A convolution module that somebody froze, hooked, pruned or fused behaves as its parts called one after another."""

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils import prune, weight_norm
from torch.nn.utils.fusion import fuse_conv_bn_eval

from src.models.conv_module import ConvModule
from tests.models.random_weights import randomise


def build(kernel_size=3, norm="batch"):
    torch.manual_seed(0)
    return randomise(ConvModule(6, 8, kernel_size, norm)).double()


def maps(*sizes):
    generator = torch.Generator().manual_seed(1)
    sizes = sizes or ((9, 7),)
    return [torch.randn(2, 6 // len(sizes), *size, generator=generator, dtype=torch.float64) for size in sizes]


def plainly(module, levels, size):
    joined = torch.cat([F.interpolate(level, size, mode="bilinear", align_corners=False) for level in levels], 1)
    return F.relu(module.bn(module.conv(joined)))


def assert_same_with_gradients(module, levels, size):
    """Twice, for the second forward pass comes after a backward pass."""
    other = copy.deepcopy(module)
    for _ in range(2):
        results = []
        for one, run in ((module, lambda m, ls: m.joined(ls, size)[0]), (other, lambda m, ls: plainly(m, ls, size))):
            leaves = [level.clone().requires_grad_() for level in levels]
            result = run(one, leaves)
            parameters = [parameter for parameter in one.parameters() if parameter.requires_grad]
            weights = torch.linspace(-1, 1, result.numel(), dtype=result.dtype).view(result.shape)
            results.append([result, *torch.autograd.grad((result * weights).sum(), [*leaves, *parameters])])
        for found, expected in zip(*results, strict=True):
            assert torch.allclose(found, expected, rtol=0, atol=1e-11 * max(1, expected.abs().max().item()))


@pytest.mark.parametrize(("kernel_size", "sizes"), [(1, ((9, 7),)), (3, ((9, 7),)), (3, ((9, 7), (5, 4)))])
def test_gradients_of_a_frozen_norm(kernel_size, sizes):
    module = build(kernel_size).train()
    module.bn.eval()
    before = module.bn.running_mean.clone()
    assert_same_with_gradients(module, maps(*sizes), (9, 7))
    assert torch.equal(module.bn.running_mean, before)


@pytest.mark.parametrize("norm", ["batch", "group"])
def test_gradients_of_a_norm_whose_output_is_changed_by_a_hook(norm):
    module = build(norm=norm).train()
    module.bn.register_forward_hook(lambda _, __, output: output - 0.5)
    assert_same_with_gradients(module, maps(), (9, 7))


@pytest.mark.parametrize("training", [False, True])
def test_pruned_and_normalised_weights_learn(training):
    for touch in (lambda conv: prune.l1_unstructured(conv, "weight", 0.5), weight_norm):
        module = build().train(training)
        touch(module.conv)
        for _ in range(2):
            module.joined(maps(), (9, 7))[0].sum().backward()
    with torch.no_grad():
        before = module.eval()(maps()[0])
        module.conv.weight_g.mul_(3)
        assert not torch.allclose(module(maps()[0]), before)


@torch.no_grad()
def test_statistics_are_gathered_where_only_the_norm_trains():
    module = build().eval()
    module.bn.train()
    other, (level,) = copy.deepcopy(module), maps()
    assert torch.allclose(module(level), plainly(other, [level], (9, 7)))
    assert torch.equal(module.bn.running_mean, other.bn.running_mean)


@torch.no_grad()
def test_a_module_that_was_fused_keeps_its_bias():
    module = build().eval()
    (level,) = maps()
    expected = module(level)
    module.conv, module.bn = fuse_conv_bn_eval(module.conv, module.bn), nn.Identity()
    assert torch.allclose(module(level), expected)


@torch.no_grad()
def test_norms_without_parameters_and_other_constants():
    module, (level,) = build().eval(), maps()
    before = module(level)
    module.bn.eps = 0.5
    assert torch.allclose(module(level), plainly(module, [level], (9, 7)))
    assert not torch.allclose(module(level), before)
    module.bn = nn.BatchNorm2d(8, affine=False).double().eval()
    assert torch.allclose(module(level), plainly(module, [level], (9, 7)))
