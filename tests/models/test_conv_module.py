import pytest
import torch
from torch import nn

from src.models.conv_module import ConvModule, SingleValueBatchNorm2d, classifier


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
