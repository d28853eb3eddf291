import pytest
import torch
import torch.nn.functional as F

from src.models.features import FeatureSpec
from src.models.upernet import UPerNetDecoder

SPECS = [FeatureSpec(4, 4), FeatureSpec(6, 8), FeatureSpec(8, 16), FeatureSpec(10, 32)]


def maps(sizes=((9, 15), (5, 8), (3, 4), (2, 2)), specs=SPECS, batch=2, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return [
        torch.randn(batch, spec.channels, *size, generator=generator) for spec, size in zip(specs, sizes, strict=True)
    ]


def build(seed=0, **options):
    torch.manual_seed(seed)
    return UPerNetDecoder(SPECS, 5, **{"channels": 8} | options)


def written_out(decoder, features):
    """The decoder in plain steps, for pool sizes (1, 2, 3, 6)."""
    up = lambda x, size: F.interpolate(x, size=size, mode="bilinear", align_corners=False)  # noqa: E731
    c2, c3, c4, c5 = features
    pooled = [
        up(decoder.psp_modules[k][1](F.adaptive_avg_pool2d(c5, s)), c5.shape[2:]) for k, s in enumerate((1, 2, 3, 6))
    ]
    p5 = decoder.bottleneck(torch.cat([c5, *pooled], 1))
    p4 = decoder.lateral_convs[2](c4) + up(p5, c4.shape[2:])
    p3 = decoder.lateral_convs[1](c3) + up(p4, c3.shape[2:])
    p2 = decoder.lateral_convs[0](c2) + up(p3, c2.shape[2:])
    levels = [decoder.fpn_convs[0](p2), decoder.fpn_convs[1](p3), decoder.fpn_convs[2](p4), p5]
    merged = decoder.fpn_bottleneck(torch.cat([up(level, c2.shape[2:]) for level in levels], 1))
    return decoder.conv_seg(merged)


def test_forward_is_the_published_function():
    decoder, features = build().eval(), maps()
    assert torch.allclose(decoder(features), written_out(decoder, features), atol=1e-6)


def test_names_are_the_published_ones():
    convs = [f"psp_modules.{k}.1" for k in range(4)] + ["bottleneck", "fpn_bottleneck"]
    convs += [f"{name}.{k}" for name in ("lateral_convs", "fpn_convs") for k in range(3)]
    parameters = {f"{conv}.{part}" for conv in convs for part in ("conv.weight", "bn.weight", "bn.bias")}
    assert {name for name, _ in build().named_parameters()} == parameters | {"conv_seg.weight", "conv_seg.bias"}


def test_defaults_are_the_published_ones():
    decoder = UPerNetDecoder([FeatureSpec(96, 4), FeatureSpec(192, 8), FeatureSpec(384, 16), FeatureSpec(768, 32)], 150)
    assert decoder.bottleneck.conv.weight.shape == (512, 768 + 4 * 512, 3, 3)
    assert decoder.fpn_bottleneck.conv.weight.shape == (512, 4 * 512, 3, 3)
    assert decoder.conv_seg.weight.shape == (150, 512, 1, 1)
    assert decoder.dropout.p == 0.1


@pytest.mark.parametrize(
    ("option", "value"), [("channels", 16), ("pool_sizes", (1, 2)), ("pool_sizes", (1, 2, 3, 5)), ("norm", "group")]
)
def test_every_option_changes_the_result(option, value):
    features = maps(sizes=((9, 15), (9, 15), (9, 15), (7, 8)))
    usual, other = build().eval()(features), build(**{option: value}).eval()(features)
    assert usual.shape == other.shape
    assert not torch.allclose(usual, other)


def test_dropout_drops_channels_in_training_only():
    decoder, features = build(dropout=0.5, norm="group"), maps()
    assert not torch.equal(decoder.train()(features), decoder(features))
    assert torch.equal(decoder.eval()(features), decoder(features))
    assert torch.equal(build(dropout=0.5, norm="group").eval()(features), build(dropout=0.0, norm="group")(features))


def test_one_image_of_one_cell_trains():
    decoder = build().train()
    logits = decoder(maps(sizes=((1, 1),) * 4, batch=1))
    logits.square().mean().backward()
    assert logits.shape == (1, 5, 1, 1)
    assert all(parameter.grad.isfinite().all() for parameter in decoder.parameters())


@pytest.mark.parametrize("count", [1, 2, 3])
def test_any_number_of_levels_will_do(count):
    decoder = UPerNetDecoder(SPECS[:count], 5, channels=8).eval()
    assert decoder(maps()[:count]).shape == (2, 5, 9, 15)


def test_stride_is_the_finest_levels():
    assert UPerNetDecoder(SPECS[1:], 5, channels=8).stride == 8


def test_maps_of_another_encoder_are_refused():
    with pytest.raises(ValueError, match=r"UPerNetDecoder: level 2 must be \(B, 8, h, w\), got \(2, 7, 3, 4\)"):
        other = [*SPECS[:2], FeatureSpec(7, 16), SPECS[3]]
        build()(maps(specs=other))


@pytest.mark.parametrize("features", [[], SPECS[::-1]])
def test_levels_must_run_from_fine_to_coarse(features):
    with pytest.raises(ValueError, match="from fine to coarse"):
        UPerNetDecoder(features, 5)


@pytest.mark.parametrize("options", [{"channels": 0}, {"pool_sizes": (0, 1)}])
def test_numbers_out_of_range_are_refused(options):
    with pytest.raises(ValueError, match=r"model\.model\.decoder\.channels and pool_sizes must be positive, got .*\.$"):
        build(**options)
