import pytest
import torch

from src.models.fcn_head import FCNHead
from src.models.features import FeatureSpec
from tests.layers.kept_storages import kept_storages
from tests.models.random_weights import randomise

SPECS = [FeatureSpec(4, 4), FeatureSpec(6, 8), FeatureSpec(8, 16), FeatureSpec(10, 32)]


def maps():
    generator = torch.Generator().manual_seed(0)
    return [
        torch.randn(2, spec.channels, size, size, generator=generator)
        for spec, size in zip(SPECS, (8, 4, 2, 1), strict=True)
    ]


def build(**options):
    torch.manual_seed(0)
    return FCNHead(SPECS, 5, **options)


def test_head_classifies_one_level():
    head, features = build().eval(), maps()
    expected = head.conv_seg(head.convs[0](features[2]))
    assert torch.equal(head(features), expected)
    features[0].zero_(), features[1].zero_(), features[3].zero_()
    assert torch.equal(head(features), expected)


def test_defaults_and_names_are_the_published_ones():
    head = build()
    assert (head.level, head.stride, head.dropout.p) == (2, 16, 0.1)
    assert {name: tuple(value.shape) for name, value in head.named_parameters()} == {
        "convs.0.conv.weight": (256, 8, 3, 3),
        "convs.0.bn.weight": (256,),
        "convs.0.bn.bias": (256,),
        "conv_seg.weight": (5, 256, 1, 1),
        "conv_seg.bias": (5,),
    }


@pytest.mark.parametrize(("option", "value"), [("channels", 16), ("num_convs", 2), ("num_convs", 0), ("norm", "group")])
def test_every_option_changes_the_result(option, value):
    features = maps()
    assert not torch.allclose(build().eval()(features), build(**{option: value}).eval()(features))


@pytest.mark.parametrize("level", range(4))
def test_level_sets_stride_and_size(level):
    head = build(level=level).eval()
    assert head.stride == SPECS[level].stride
    assert head(maps()).shape[-2:] == maps()[level].shape[-2:]


def test_dropout_acts_in_training_only():
    head, features = build(dropout=0.5, norm="group"), maps()
    assert not torch.equal(head.train()(features), head(features))
    assert torch.equal(head.eval()(features), head(features))


@pytest.mark.parametrize("level", [-1, 4])
def test_missing_level_is_refused(level):
    with pytest.raises(ValueError, match=rf"model\.model\.auxiliary\.level must be between 0 and 3, got {level};"):
        build(level=level)


def test_maps_of_another_encoder_are_refused():
    with pytest.raises(ValueError, match="FCNHead must have 4 feature levels, got 3"):
        build()(maps()[:3])


def plainly_trained(head, features):
    level = features[head.level]
    for conv in head.convs:
        level = conv.bn(conv.conv(level)).relu()
    return head.conv_seg(head.dropout(level))


@pytest.mark.parametrize("num_convs", [0, 1, 2, 3])
@pytest.mark.parametrize("norm", ["batch", "group"])
@pytest.mark.parametrize("dropout", [0.0, 0.5])
@pytest.mark.parametrize("training", [True, False])
def test_gradients_are_those_of_the_plain_steps(num_convs, norm, dropout, training):
    """Logits, gradients, running statistics, and the state of the random numbers."""
    features = [feature.double().requires_grad_() for feature in maps()]
    found = []
    for forward in (lambda head, features: head(features), plainly_trained):
        head = randomise(build(num_convs=num_convs, norm=norm, dropout=dropout, channels=16)).double().train(training)
        torch.manual_seed(3)
        logits = forward(head, features)
        gradients = torch.autograd.grad(logits.square().sum(), [features[2], *head.parameters()])
        found.append([logits.detach(), *gradients, *head.buffers(), torch.rand(1)])
    assert all(torch.allclose(a, b, rtol=1e-10, atol=1e-10) for a, b in zip(*found, strict=True))


@pytest.mark.parametrize("level", range(4))
@pytest.mark.parametrize("num_convs", [1, 2])
def test_folded_norms_give_the_same(level, num_convs):
    head = randomise(build(level=level, num_convs=num_convs, channels=16)).double()
    features = [feature.double() for feature in maps()]
    expected = head(features)
    for mode in (torch.no_grad, torch.inference_mode):
        with mode():
            assert torch.allclose(head(features), expected, rtol=0, atol=1e-11)


def test_graph_keeps_one_map_for_each_convolution():
    head = build(level=0, channels=64, num_convs=2).train()
    features = maps()
    with kept_storages() as kept:
        head(features)
    assert kept.count(2 * 64 * 64 * 4) == 2


def test_statistics_are_updated_once_for_each_step():
    head = build(num_convs=2).train()
    for step in range(1, 3):
        head(maps()).sum().backward()
        assert [conv.bn.num_batches_tracked.item() for conv in head.convs] == [step, step]


def test_one_image_of_one_cell_trains():
    head = build(level=3).train()
    head([feature[:1, :, :1, :1] for feature in maps()]).square().sum().backward()
    assert all(parameter.grad.isfinite().all() for parameter in head.parameters())
