import pytest
import torch

from src.models.fcn_head import FCNHead
from src.models.features import FeatureSpec

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
