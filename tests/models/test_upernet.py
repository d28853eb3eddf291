import pytest
import torch
import torch.nn.functional as F

from src.models.features import FeatureSpec
from src.models.upernet import UPerNetDecoder
from tests.layers.kept_storages import kept_storages
from tests.models.random_weights import randomise

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


def plainly_trained(decoder, features):
    """Logits in training, in plain steps."""
    return decoder.conv_seg(decoder.dropout(merged_plainly(decoder, features)))


def merged_plainly(decoder, features):
    brick = lambda module, maps: module.bn(module.conv(maps)).relu()  # noqa: E731
    up = lambda x, size: F.interpolate(x, size=size, mode="bilinear", align_corners=False)  # noqa: E731
    coarse = features[-1]
    pooled = [up(brick(module[1], module[0](coarse)), coarse.shape[2:]) for module in decoder.psp_modules]
    merged = brick(decoder.bottleneck, torch.cat([coarse, *pooled], 1))
    outputs = [merged]
    for level in reversed(range(len(features) - 1)):
        size = features[level].shape[2:]
        merged = brick(decoder.lateral_convs[level], features[level]) + up(merged, size)
        outputs.insert(0, brick(decoder.fpn_convs[level], merged))
    return brick(decoder.fpn_bottleneck, torch.cat([up(output, features[0].shape[2:]) for output in outputs], 1))


TRAINED = [
    ((9, 15), (5, 8), (3, 4), (2, 2)),
    ((1, 37), (1, 19), (1, 10), (1, 5)),
    ((31, 29), (16, 15), (8, 8), (4, 4)),
    ((7, 5), (7, 5), (7, 5), (7, 5)),
    ((5, 6), (11, 13), (2, 3), (20, 1)),
]


@pytest.mark.parametrize("sizes", TRAINED)
@pytest.mark.parametrize("norm", ["batch", "group"])
@pytest.mark.parametrize("dropout", [0.0, 0.5])
def test_training_is_that_of_the_plain_steps(sizes, norm, dropout):
    """Logits, gradients, running statistics, and the state of the random numbers."""
    features = [feature.double().requires_grad_() for feature in maps(sizes)]
    found = []
    for forward in (lambda decoder, features: decoder(features), plainly_trained):
        decoder = randomise(build(norm=norm, dropout=dropout)).double().train()
        torch.manual_seed(3)
        logits = forward(decoder, features)
        gradients = torch.autograd.grad(logits.square().sum(), [*features, *decoder.parameters()])
        found.append([logits.detach(), *gradients, *decoder.buffers(), torch.rand(1)])
    for one, other in zip(*found, strict=True):
        assert torch.allclose(one, other, rtol=1e-9, atol=1e-10 * max(1.0, other.abs().max().item()))


@pytest.mark.parametrize("norm", ["batch", "group"])
def test_single_cells_train_as_in_plain_steps(norm):
    features = [feature.double() for feature in maps(((1, 1),) * 4, batch=1)]
    decoder = randomise(build(norm=norm, dropout=0.0)).double().train()
    found, true = (
        torch.autograd.grad(logits.square().sum(), list(decoder.parameters()))
        for logits in (decoder(features), plainly_trained(decoder, features))
    )
    assert all(torch.allclose(a, b, rtol=1e-9, atol=1e-12) for a, b in zip(found, true, strict=True))


def test_statistics_are_updated_once_for_each_step():
    decoder = build().train()
    for step in range(1, 4):
        decoder(maps(seed=step)).sum().backward()
        counts = [buffer for name, buffer in decoder.named_buffers() if name.endswith("num_batches_tracked")]
        assert len(counts) == 12
        assert all(count == step for count in counts)


@pytest.mark.parametrize("norm", ["batch", "group"])
@pytest.mark.parametrize("dropout", [0.0, 0.1])
def test_graph_keeps_no_activated_map_of_the_finest_level(norm, dropout):
    """Three convolved maps are kept, of lateral, level and merged; the plain steps keep several times as much."""
    decoder = build(channels=32, norm=norm, dropout=dropout).train()
    features = maps(((32, 48), (8, 12), (4, 6), (2, 3)), batch=1)
    whole = 32 * 32 * 48 * 4
    counted = []
    for forward in (decoder, lambda features: plainly_trained(decoder, features)):
        with kept_storages() as kept:
            forward(features)
        counted.append([size for size in kept if size >= whole])
    ours, plain = counted
    assert ours == [whole] * 3
    assert sum(plain) >= 9 * whole


def test_a_kept_graph_goes_backward_again():
    decoder, features = build().train(), maps()
    loss = decoder(features).square().sum()
    first, second = (torch.autograd.grad(loss, list(decoder.parameters()), retain_graph=True) for _ in range(2))
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))


@pytest.mark.parametrize("frozen", ["lateral_convs", "fpn_convs", "psp_modules", "fpn_bottleneck", "conv_seg"])
def test_frozen_parts_leave_the_other_gradients(frozen):
    features = [feature.double() for feature in maps()]
    decoder = randomise(build(dropout=0.0)).double().train()
    getattr(decoder, frozen).requires_grad_(False)
    parameters = [parameter for parameter in decoder.parameters() if parameter.requires_grad]
    found, true = (
        torch.autograd.grad(forward(features).square().sum(), parameters)
        for forward in (decoder, lambda features: plainly_trained(decoder, features))
    )
    assert all(torch.allclose(a, b, rtol=1e-9, atol=1e-9) for a, b in zip(found, true, strict=True))


@pytest.mark.parametrize("norm", ["batch", "group"])
def test_training_under_automatic_precision_is_close(norm):
    decoder, features = randomise(build(norm=norm, dropout=0.0)).train(), maps()
    expected = decoder(features)
    with torch.autocast("cpu", torch.bfloat16):
        result = decoder(features)
    assert (result - expected).abs().max() <= 5e-2 * expected.abs().max()
    parameters = list(decoder.parameters())
    found, true = (torch.autograd.grad(each.float().square().sum(), parameters) for each in (result, expected))
    assert all(grad.isfinite().all() for grad in found)
    largest = max(grad.abs().max() for grad in true)
    assert all((a - b).abs().max() <= 0.1 * largest for a, b in zip(found, true, strict=True))
