import copy
import pickle

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from src.layers.recompute import not_kept
from src.layers.upsampled_conv import JoinedKernel
from src.models.conv_module import ConvModule, SingleValueBatchNorm2d, classified, classifier
from tests.layers.kept_storages import kept_storages
from tests.models.random_weights import randomise


@pytest.fixture
def norms():
    torch.manual_seed(0)
    ours, theirs = SingleValueBatchNorm2d(4), nn.BatchNorm2d(4)
    state = {"weight": torch.randn(4), "bias": torch.randn(4), "running_mean": torch.randn(4)}
    state |= {"running_var": torch.rand(4) + 0.5, "num_batches_tracked": torch.tensor(3)}
    for norm in (ours, theirs):
        norm.load_state_dict(state)
    return ours, theirs


@pytest.mark.parametrize("shape", [(2, 4, 1, 1), (1, 4, 1, 2), (3, 4, 5, 6)])
@pytest.mark.parametrize("training", [True, False])
def test_batch_norm_is_torchs_wherever_torchs_works(norms, shape, training):
    ours, theirs = (norm.train(training) for norm in norms)
    maps = torch.randn(shape)
    assert torch.equal(ours(maps), theirs(maps))
    assert all(torch.equal(a, b) for a, b in zip(ours.buffers(), theirs.buffers(), strict=True))


def test_single_value_per_channel_takes_the_running_statistics(norms):
    ours, theirs = norms
    before = [buffer.clone() for buffer in ours.buffers()]
    maps = torch.randn(1, 4, 1, 1, requires_grad=True)
    result = ours.train()(maps)
    assert torch.allclose(result, theirs.eval()(maps))
    result.sum().backward()
    assert maps.grad.abs().sum() > 0
    assert all(torch.equal(a, b) for a, b in zip(ours.buffers(), before, strict=True))


def test_a_norm_without_running_statistics_is_torchs():
    ours, theirs = (norm(4, track_running_stats=False) for norm in (SingleValueBatchNorm2d, nn.BatchNorm2d))
    maps = torch.randn(2, 4, 5, 6)
    for training in (True, False):
        assert torch.equal(ours.train(training)(maps), theirs.train(training)(maps))
    with pytest.raises(ValueError, match="more than 1 value per channel"):
        ours.train()(maps[:1, :, :1, :1])


def test_synchronised_norm_can_take_its_place():
    module = nn.SyncBatchNorm.convert_sync_batchnorm(ConvModule(3, 4, 1))
    assert isinstance(module.bn, nn.SyncBatchNorm)
    assert set(module.state_dict()) == set(ConvModule(3, 4, 1).state_dict())


def test_module_is_convolution_norm_and_relu():
    torch.manual_seed(0)
    module = ConvModule(3, 4, 3).eval()
    maps = torch.randn(2, 3, 5, 6)
    assert torch.equal(module(maps), module.bn(module.conv(maps)).clamp(min=0))
    assert module.conv.bias is None


@pytest.mark.parametrize(("channels", "groups"), [(512, 32), (48, 24), (8, 4), (5, 1), (1, 1)])
def test_groups_divide_the_channels_and_hold_two_or_more(channels, groups):
    assert ConvModule(3, channels, 1, norm="group").bn.num_groups == groups


def test_group_norm_gives_an_image_the_same_alone_and_in_a_batch():
    torch.manual_seed(0)
    module = ConvModule(3, 8, 3, norm="group").train()
    maps = torch.randn(2, 3, 5, 6)
    assert torch.allclose(module(maps)[:1], module(maps[:1]), atol=1e-6)


def test_unknown_norm_is_refused_with_the_way_to_synchronise():
    with pytest.raises(ValueError, match=r"model\.model\.decoder\.norm must be .*got 'sync'.*sync_batchnorm"):
        ConvModule(3, 4, 1, norm="sync")


def test_convolutions_start_with_the_variance_of_their_fan_out():
    torch.manual_seed(0)
    assert ConvModule(64, 128, 3).conv.weight.std().item() == pytest.approx((2 / (128 * 9)) ** 0.5, rel=0.02)


def test_classifier_starts_near_zero():
    torch.manual_seed(0)
    conv = classifier(512, 150)
    assert conv.weight.std().item() == pytest.approx(0.01, rel=0.02)
    assert conv.bias.abs().max() == 0


def test_no_classes_are_refused():
    with pytest.raises(ValueError, match=r"model\.model\.num_classes must be at least 1, got 0;"):
        classifier(8, 0)


def module_of(kernel_size=3, norm="batch", channels=(3, 4), seed=0):
    module = randomise(ConvModule(*channels, kernel_size, norm), seed)
    return module.double()


def plainly(module, maps, size):
    resized = [F.interpolate(level, size=size, mode="bilinear", align_corners=False) for level in maps]
    return module.bn(module.conv(torch.cat(resized, 1))).relu()


def random_maps(*shapes, dtype=torch.float64):
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype) for shape in shapes]


@pytest.mark.parametrize("norm", ["batch", "group"])
@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("gradient", [True, False])
@pytest.mark.parametrize("sizes", [[(9, 15)], [(5, 8), (9, 15)], [(1, 1), (3, 2)], [(1, 1), (20, 31), (9, 15)]])
def test_joined_is_convolution_norm_and_relu_of_the_joined_maps(norm, training, gradient, sizes):
    module = module_of(norm=norm, channels=(3 * len(sizes), 4)).train(training)
    maps = random_maps(*((2, 3, *size) for size in sizes))
    with torch.set_grad_enabled(gradient):
        expected = plainly(copy.deepcopy(module), maps, (9, 15))
        result, _ = module.joined(maps, (9, 15))
    assert result.requires_grad == gradient
    assert torch.allclose(result, expected, rtol=0, atol=1e-11)


@pytest.mark.parametrize("kernel_size", [1, 3])
def test_folded_weights_do_the_norm_as_well(kernel_size):
    module = module_of(kernel_size)
    (maps,) = random_maps((2, 3, 5, 6))
    weight, bias = module.folded(torch.float64)
    expected = module.bn(module.conv(maps))
    assert torch.allclose(F.conv2d(maps, weight, bias, padding=kernel_size // 2), expected, rtol=0, atol=1e-12)
    assert {part.dtype for part in module.folded(torch.bfloat16)} == {torch.bfloat16}


def test_norms_fold_where_they_are_fixed_only():
    assert module_of().folds
    assert not module_of().train().folds
    assert not module_of(norm="group").folds
    module = module_of()
    module.bn.track_running_stats = False
    assert not module.folds


def other_state(module):
    return randomise(copy.deepcopy(module), seed=1).state_dict()


CHANGES = {
    "weight": lambda module: nn.init.normal_(module.conv.weight),
    "norm": lambda module: module.bn.weight.mul_(2),
    "statistics": lambda module: module.bn.running_mean.add_(1),
    "load": lambda module: module.load_state_dict(other_state(module)),
    "assign": lambda module: module.load_state_dict(other_state(module), assign=True),
    "other type and back": lambda module: module.bfloat16().double(),
    "data and mode": lambda module: (module.conv.weight.data.mul_(2), module.train(), module.eval()),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
@pytest.mark.parametrize("kernel_size", [1, 3])
def test_what_was_prepared_follows_the_weights(change, kernel_size):
    module = module_of(kernel_size)
    (maps,) = random_maps((2, 3, 5, 6))
    with torch.no_grad():
        before = module(maps)
        change(module)
        after = module(maps)
        assert torch.allclose(after, plainly(module, [maps], (5, 6)), rtol=0, atol=1e-12)
    assert not torch.allclose(after, before)


@pytest.mark.parametrize("options", [{"foreach": False}, {"foreach": True}, {"fused": True}])
def test_training_steps_are_followed(options):
    module = module_of()
    (maps,) = random_maps((2, 3, 5, 6))
    optimizer = torch.optim.AdamW(module.parameters(), lr=0.1, **options)
    for _ in range(2):
        with torch.no_grad():
            assert torch.allclose(module.eval()(maps), plainly(module, [maps], (5, 6)), rtol=0, atol=1e-12)
        module.train()(maps).sum().backward()
        optimizer.step()


def test_prepared_weights_are_made_once_in_inference_mode_too(monkeypatch):
    module, made = module_of(), []
    (maps,) = random_maps((2, 3, 5, 6))
    usual = JoinedKernel.prepared.__func__
    monkeypatch.setattr(JoinedKernel, "prepared", classmethod(lambda cls, *args: made.append(0) or usual(cls, *args)))
    with torch.inference_mode():
        first, second = module(maps), module(maps)
        module(maps[:, :, :3])
    with torch.no_grad():
        third = module(maps)
    assert torch.equal(first, second)
    assert torch.equal(first, third)
    assert len(made) == 1
    module(maps).sum().backward()


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode, torch.enable_grad])
@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("norm", ["batch", "group"])
@pytest.mark.parametrize("kernel_size", [1, 3])
def test_automatic_precision_is_close(mode, training, norm, kernel_size):
    module = module_of(kernel_size, norm, channels=(6, 4) if kernel_size == 3 else (3, 4)).float().train(training)
    maps = random_maps(*[(2, 3, 9, 15), (2, 3, 2, 2)][: 1 + (kernel_size == 3)], dtype=torch.float32)
    maps[-1] = maps[-1].bfloat16()
    with mode():
        with torch.autocast("cpu", torch.bfloat16):
            result, _ = module.joined(maps, (9, 15))
        expected = plainly(module, [level.float() for level in maps], (9, 15))
    assert (result - expected).abs().max() < 0.05 * expected.abs().max()


def test_numerics_change_the_rounding():
    module = module_of(channels=(64, 64)).float()
    (maps,) = random_maps((1, 64, 16, 16), dtype=torch.float32)
    with torch.no_grad():
        exact = module(maps)
        module.numerics = "fast"
        fast = module(maps)
    assert not torch.equal(exact, fast)
    assert (exact - fast).abs().max() < 1e-5 * exact.abs().max()


@pytest.mark.parametrize("norm", ["batch", "group"])
@pytest.mark.parametrize("kernel_size", [1, 3])
def test_training_keeps_what_was_convolved_alone(norm, kernel_size):
    """Of the size of the result: the convolved map, and neither the normed nor the rectified one."""
    module = module_of(kernel_size, norm, channels=(3, 64)).train()
    (maps,) = random_maps((2, 3, 8, 8))
    consumer = nn.Conv2d(64, 2, 1).double()
    with kept_storages() as kept:
        result, again = module.joined([maps], (8, 8))
        with not_kept((result, again)):
            logits = consumer(result)
    assert [size for size in kept if size >= 2 * 64 * 64 * 8] == [2 * 64 * 64 * 8]
    parameters = [*module.parameters(), *consumer.parameters()]
    found = torch.autograd.grad(logits.square().sum(), parameters)
    true = torch.autograd.grad(consumer(plainly(module, [maps], (8, 8))).square().sum(), parameters)
    assert all(torch.allclose(a, b, rtol=1e-10, atol=1e-10) for a, b in zip(found, true, strict=True))


def test_statistics_are_updated_once_for_each_step():
    module, plain = module_of().train(), module_of().train()
    for seed in range(3):
        maps = torch.randn(2, 3, 5, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
        result, again = module.joined([maps], (5, 6))
        with not_kept((result, again)):
            loss = result.square().sum()
        loss.backward()
        plain.bn(plain.conv(maps))
        assert all(torch.equal(a, b) for a, b in zip(module.buffers(), plain.buffers(), strict=True))
    assert module.bn.num_batches_tracked == 3


@pytest.mark.parametrize("p", [0.0, 0.5])
@pytest.mark.parametrize("norm", ["batch", "group"])
def test_classified_drops_the_channels_that_dropout_drops(p, norm):
    module, classify, dropout = (
        module_of(norm=norm, channels=(3, 16)).train(),
        classifier(16, 5).double(),
        nn.Dropout2d(p),
    )
    (maps,) = random_maps((2, 3, 5, 6))
    parameters = [*module.parameters(), *classify.parameters()]
    found = []
    for ours in (True, False):
        torch.manual_seed(0)
        if ours:
            logits = classified(*module.joined([maps], (5, 6)), dropout, classify)
        else:
            logits = classify(dropout(plainly(module, [maps], (5, 6))))
        found.append([logits, *torch.autograd.grad(logits.square().sum(), parameters), torch.rand(1)])
    assert all(torch.allclose(a, b, rtol=1e-10, atol=1e-12) for a, b in zip(*found, strict=True))


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda module: pickle.loads(pickle.dumps(module))])
def test_copies_have_weights_of_their_own(copied):
    module = module_of()
    (maps,) = random_maps((2, 3, 5, 6))
    with torch.no_grad():
        before = module(maps)
        other = copied(module)
        other.conv.weight.mul_(2)
        assert torch.allclose(other(maps), plainly(other, [maps], (5, 6)), rtol=0, atol=1e-12)
        assert torch.equal(module(maps), before)
