"""The decoder without gradients, strip by strip and its norms folded, against itself with gradients, whole."""

import copy

import pytest
import torch

from src.layers import strips
from src.models import upernet_strips
from src.models.features import FeatureSpec
from src.models.upernet import UPerNetDecoder
from src.models.upernet_strips import FinestLevel
from tests.layers.largest_tensor import LargestTensor
from tests.layers.nan_memory import nan_memory
from tests.models.random_weights import randomise

SPECS = [FeatureSpec(4, 4), FeatureSpec(6, 8), FeatureSpec(8, 16), FeatureSpec(10, 32)]
SIZES = [
    ((9, 15), (5, 8), (3, 4), (2, 2)),
    ((1, 1), (1, 1), (1, 1), (1, 1)),
    ((1, 37), (1, 19), (1, 10), (1, 5)),
    ((37, 1), (19, 1), (10, 1), (5, 1)),
    ((31, 29), (16, 15), (8, 8), (4, 4)),
    ((7, 5), (7, 5), (7, 5), (7, 5)),
    ((5, 6), (11, 13), (2, 3), (20, 1)),
]


def maps(sizes=SIZES[0], specs=SPECS, batch=2, dtype=torch.float64, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return [
        torch.randn(batch, spec.channels, *size, generator=generator, dtype=torch.float64).to(dtype)
        for spec, size in zip(specs, sizes, strict=True)
    ]


def build(specs=SPECS, dtype=torch.float64, seed=0, **options):
    return randomise(UPerNetDecoder(specs, 5, **{"channels": 8} | options), seed).to(dtype)


def compare(decoder, features, tolerance):
    with torch.enable_grad():
        expected = decoder(features).detach()
    with torch.no_grad():
        result = decoder(features)
    assert result.shape == expected.shape
    assert result.dtype == expected.dtype
    assert (result - expected).abs().max() <= tolerance * expected.abs().max()
    return result


@pytest.fixture
def few_rows(monkeypatch):
    """Strips of a few rows each, whatever the size."""

    def set_rows(rows):
        monkeypatch.setattr(upernet_strips, "strip_rows", lambda size, channels, like: min(rows, size[0]))

    return set_rows


@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-12), (torch.float32, 1e-5)])
def test_strips_equal_the_whole(sizes, batch, dtype, tolerance):
    with nan_memory():
        compare(build(dtype=dtype), maps(sizes, batch=batch, dtype=dtype), tolerance)


@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("rows", [1, 2, 3, 4, 8])
def test_rows_of_the_strips_do_not_matter(sizes, rows, few_rows):
    few_rows(rows)
    with nan_memory():
        compare(build(), maps(sizes), 1e-12)


@pytest.mark.parametrize("channels", [1, 2, 3, 7, 64])
@pytest.mark.parametrize("numerics", ["exact", "fast"])
@pytest.mark.parametrize("rows", [3, 8])
def test_channels_and_numerics_do_not_matter(channels, numerics, rows, few_rows):
    few_rows(rows)
    decoder = build(channels=channels)
    for module in decoder.modules():
        if hasattr(module, "numerics"):
            module.numerics = numerics
    compare(decoder, maps(((31, 29), (16, 15), (8, 8), (4, 4))), 1e-12)


@pytest.mark.parametrize("channels", [8, 64])
@pytest.mark.parametrize("numerics", ["exact", "fast"])
def test_single_precision_is_close(channels, numerics):
    decoder = build(channels=channels, dtype=torch.float32)
    for module in decoder.modules():
        if hasattr(module, "numerics"):
            module.numerics = numerics
    compare(decoder, maps(((31, 29), (16, 15), (8, 8), (4, 4)), dtype=torch.float32), 1e-5)


@pytest.mark.parametrize("part", ["all", "fpn_convs", "fpn_bottleneck"])
def test_numerics_change_the_rounding(part):
    decoder = build(channels=64, dtype=torch.float32)
    features = maps(((31, 29), (16, 15), (8, 8), (4, 4)), dtype=torch.float32)
    with torch.no_grad():
        exact = decoder(features)
        modules = decoder if part == "all" else getattr(decoder, part)
        for module in modules.modules():
            if hasattr(module, "numerics"):
                module.numerics = "fast"
        fast = decoder(features)
    assert not torch.equal(exact, fast)
    assert torch.allclose(exact, fast, atol=1e-4 * exact.abs().max().item())


@pytest.mark.parametrize("count", [1, 2, 3])
def test_any_number_of_levels_will_do(count):
    compare(build(SPECS[:count]), maps(SIZES[0][:count], SPECS[:count]), 1e-12)


@pytest.mark.parametrize("options", [{"norm": "group"}, {"pool_sizes": ()}, {"pool_sizes": (1, 5)}, {"dropout": 0.5}])
def test_any_options_will_do(options):
    compare(build(**options), maps(), 1e-12)


def test_group_norms_training_and_gradients_are_worked_whole(monkeypatch):
    prepared = []
    monkeypatch.setattr(FinestLevel, "prepared", lambda *args: prepared.append(args))
    build()(maps())
    with torch.no_grad():
        build(norm="group")(maps())
        build().train()(maps())
        assert not prepared
        with pytest.raises(AttributeError):
            build()(maps())
    assert prepared


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.bfloat16, 5e-2), (torch.float16, 1e-2)])
def test_half_precision_is_close(mode, dtype, tolerance):
    features = maps()
    expected = build()(features)
    with mode():
        result = build(dtype=dtype)([feature.to(dtype) for feature in features])
    assert result.dtype == dtype
    assert (result - expected).abs().max() <= tolerance * expected.abs().max()


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode, torch.enable_grad])
@pytest.mark.parametrize("mixed", [False, True])
def test_automatic_precision_is_close(mode, mixed):
    decoder, features = build(dtype=torch.float32), maps(dtype=torch.float32)
    expected = decoder(features)
    if mixed:
        features[1:3] = [feature.bfloat16() for feature in features[1:3]]
    with mode(), torch.autocast("cpu", torch.bfloat16):
        result = decoder(features)
    assert (result - expected).abs().max() <= 5e-2 * expected.abs().max()


def test_inference_mode_and_other_modes_take_turns():
    decoder, features = build(), maps()
    with torch.inference_mode():
        first = decoder(features)
    compare(decoder, features, 1e-12)
    decoder.train()(features).sum().backward()
    decoder.eval()
    compare(decoder, features, 1e-12)
    assert first.shape == (2, 5, 9, 15)


@pytest.mark.parametrize("layout", [torch.channels_last, torch.contiguous_format])
def test_layouts_do_not_matter(layout):
    decoder = build().to(memory_format=layout)
    compare(decoder, [feature.to(memory_format=layout) for feature in maps()], 1e-12)
    compare(decoder, [feature.transpose(2, 3).contiguous().transpose(2, 3) for feature in maps()], 1e-12)


def test_features_are_left_as_they_are():
    features = maps()
    before = [feature.clone() for feature in features]
    with torch.no_grad():
        build()(features)
    assert all(torch.equal(a, b) for a, b in zip(before, features, strict=True))


CHANGES = {
    "load": lambda decoder: decoder.load_state_dict(build(seed=1).state_dict()),
    "assign": lambda decoder: decoder.load_state_dict(build(seed=1).state_dict(), assign=True),
    "classifier": lambda decoder: decoder.conv_seg.bias.add_(1),
    "lateral": lambda decoder: decoder.lateral_convs[0].conv.weight.mul_(2),
    "finest": lambda decoder: decoder.fpn_convs[0].bn.running_mean.sub_(1),
    "coarser": lambda decoder: decoder.fpn_convs[1].bn.bias.add_(1),
    "bottleneck": lambda decoder: decoder.fpn_bottleneck.bn.running_var.mul_(3),
    "other type and back": lambda decoder: decoder.bfloat16().double(),
    "data and mode": lambda decoder: (
        [p.data.mul_(1.1) for p in decoder.parameters()],
        decoder.train(),
        decoder.eval(),
    ),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_changed_weights_are_followed(change):
    decoder, features = build(), maps()
    before = compare(decoder, features, 1e-12)
    with torch.no_grad():
        change(decoder)
    assert not torch.equal(compare(decoder, features, 1e-12), before)


@pytest.mark.parametrize("build_optimizer", [torch.optim.SGD, torch.optim.AdamW])
@pytest.mark.parametrize("options", [{"foreach": True}, {"fused": True}])
@pytest.mark.parametrize("fixed_norms", [False, True])
def test_training_steps_are_followed(build_optimizer, options, fixed_norms):
    decoder, features = build(), maps()
    optimizer = build_optimizer(decoder.parameters(), lr=0.01, **options)
    seen = []
    for _ in range(3):
        seen.append(compare(decoder.eval(), features, 1e-12))
        decoder.train()
        if fixed_norms:
            for module in decoder.modules():
                if isinstance(module, torch.nn.BatchNorm2d):
                    module.eval()
        optimizer.zero_grad()
        decoder(features).square().mean().backward()
        optimizer.step()
    assert not torch.equal(seen[0], seen[1])
    assert not torch.equal(seen[1], seen[2])


def test_copies_have_weights_of_their_own():
    decoder, features = build(), maps()
    before = compare(decoder, features, 1e-12)
    other = copy.deepcopy(decoder)
    with torch.no_grad():
        other.conv_seg.bias.add_(1)
    assert torch.allclose(compare(other, features, 1e-12), before + 1)
    assert torch.equal(compare(decoder, features, 1e-12), before)


def test_sizes_take_turns():
    decoder = build()
    for sizes in (*SIZES, *SIZES):
        compare(decoder, maps(sizes), 1e-12)


def test_preparation_is_made_once_for_all_sizes(monkeypatch):
    made = []
    usual = upernet_strips.FinestLevel.prepared.__func__
    monkeypatch.setattr(
        upernet_strips.FinestLevel, "prepared", classmethod(lambda cls, *args: made.append(0) or usual(cls, *args))
    )
    decoder = build()
    for mode, sizes in zip((torch.inference_mode, torch.no_grad, torch.inference_mode), SIZES, strict=False):
        with mode():
            decoder(maps(sizes))
    assert len(made) == 1


@pytest.mark.parametrize("rows", [4, 8])
def test_no_map_of_the_finest_level_exists_whole(rows, few_rows, monkeypatch):
    few_rows(rows)
    monkeypatch.setattr("src.layers.upsampled_taps._CHUNK_BYTES", 2**14)
    decoder = build(channels=32, dtype=torch.float32)
    features = maps(((128, 96), (16, 12), (8, 6), (4, 3)), batch=1, dtype=torch.float32)
    whole = 32 * 128 * 96
    with torch.no_grad(), LargestTensor() as largest:
        decoder(features)
    assert largest.numel < whole / 4
    with LargestTensor() as plain:
        decoder(features)
    assert plain.numel >= whole


def test_strips_hold_to_their_budget(monkeypatch):
    rows = []
    usual = strips.strip_rows
    monkeypatch.setattr(upernet_strips, "strip_rows", lambda *args: rows.append((usual(*args), args[1])) or rows[-1][0])
    with torch.no_grad():
        build()(maps(batch=1))
    assert rows == [(9, 8)]


def test_an_empty_batch_has_no_logits():
    with torch.no_grad():
        assert build()(maps(batch=0)).shape == (0, 5, 9, 15)


@pytest.mark.parametrize("place", [(0, 0), (12, 20), (30, 28)])
def test_a_cell_of_nan_does_not_reach_far_rows(place, few_rows):
    """The finest level passes two 3x3 convolutions, in tiles of at most four rows."""
    few_rows(4)
    decoder = build(channels=64)
    features = maps(((31, 29), (16, 15), (8, 8), (4, 4)), batch=1)
    with torch.no_grad():
        expected = decoder(features)
        features[0][0, 0, place[0], place[1]] = float("nan")
        result = decoder(features)
    far = [row for row in range(31) if abs(row - place[0]) > 10]
    assert result[:, :, place[0], place[1]].isnan().all()
    assert torch.equal(result[:, :, far], expected[:, :, far])
