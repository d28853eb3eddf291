import copy
import itertools

import pytest
import torch

from src.models.settings import build, plain
from src.models.swin import SWIN_SIZES, SwinTransformer
from src.models.swin_encoder import stage_windows
from tests.models.random_weights import randomise

SMALL = {"embed_dim": 8, "depths": (2, 2, 2, 2), "num_heads": (1, 2, 2, 4)}
HOSTILE_SIZES = [(1, 1), (97, 131), (8, 9), (29, 131), (97, 28), (56, 57), (33, 5)]


def small(**options):
    torch.manual_seed(0)
    return randomise(SwinTransformer(**(SMALL | options)))


def relative_difference(a, b):
    return ((a - b).abs().max() / b.abs().max()).item()


@pytest.mark.parametrize(
    ("size", "grids"),
    [
        ((500, 333), [(125, 84), (63, 42), (32, 21), (16, 11)]),
        ((36, 60), [(9, 15), (5, 8), (3, 4), (2, 2)]),
        ((32, 32), [(8, 8), (4, 4), (2, 2), (1, 1)]),
        ((64, 96), [(16, 24), (8, 12), (4, 6), (2, 3)]),
        ((1, 1), [(1, 1)] * 4),
        ((3, 250), [(1, 63), (1, 32), (1, 16), (1, 8)]),
    ],
)
@torch.no_grad()
def test_any_size_gives_its_grids_channels_first(size, grids):
    model = small()
    features = model(torch.randn(1, 3, *size))
    assert [tuple(level.shape) for level in features] == [
        (1, spec.channels, *grid) for spec, grid in zip(model.feature_specs, grids, strict=True)
    ]
    assert all(level.isfinite().all() and level.is_contiguous() for level in features)


def test_a_batch_of_tiny_images_trains():
    model = small(drop_path_rate=0.1).train()
    sum(level.square().mean() for level in model(torch.randn(2, 3, 32, 32))).backward()
    assert all(parameter.grad.isfinite().all() for parameter in model.parameters())


@pytest.mark.parametrize("name", SWIN_SIZES)
def test_published_sizes_say_their_channels(name):
    with torch.device("meta"):
        model = SwinTransformer(**SWIN_SIZES[name]._asdict())
    first = {"tiny": 96, "small": 96, "base": 128, "large": 192}[name]
    assert [spec.channels for spec in model.feature_specs] == [first, 2 * first, 4 * first, 8 * first]
    assert [spec.stride for spec in model.feature_specs] == [4, 8, 16, 32]
    millions = sum(parameter.numel() for parameter in model.parameters()) / 1e6
    assert millions == pytest.approx({"tiny": 27.5, "small": 48.8, "base": 86.7, "large": 195}[name], rel=0.01)


@torch.no_grad()
def test_another_width_runs_without_channel_lists():
    model = SwinTransformer(48, num_heads=(3, 6, 12, 24)).eval()
    assert [level.shape[1] for level in model(torch.randn(1, 3, 64, 64))] == [48, 96, 192, 384]


def test_names_are_those_of_the_published_checkpoints():
    names = set(small(absolute_pos_embed=(4, 4)).state_dict())
    block = {
        f"{part}.{kind}"
        for part in ("norm1", "attn.qkv", "attn.proj", "norm2", "mlp.fc1", "mlp.fc2")
        for kind in ("weight", "bias")
    } | {"attn.position_bias.relative_position_bias_table"}
    expected = {"absolute_pos_embed"}
    expected |= {f"patch_embed.{part}.{kind}" for part in ("proj", "norm") for kind in ("weight", "bias")}
    expected |= {f"layers.{i}.blocks.{j}.{name}" for i in range(4) for j in range(2) for name in block}
    expected |= {f"layers.{i}.downsample.{name}" for i in range(3) for name in ("norm.weight", "norm.bias")}
    expected |= {f"layers.{i}.downsample.reduction.weight" for i in range(3)}
    expected |= {f"norm{i}.{kind}" for i in range(4) for kind in ("weight", "bias")}
    assert names == expected


def test_the_state_does_not_depend_on_what_the_model_has_seen():
    model = small()
    before = {name: value.shape for name, value in model.state_dict().items()}
    with torch.no_grad():
        model(torch.randn(1, 3, 70, 45))
        model(torch.randn(2, 3, 33, 90), [(33, 90), (5, 6)])
    assert {name: value.shape for name, value in model.state_dict().items()} == before
    assert list(model.buffers()) == []


@torch.no_grad()
def test_one_model_on_changing_sizes_equals_fresh_models():
    model = small()
    square, wide = torch.randn(1, 3, 64, 64), torch.randn(1, 3, 96, 80)
    outputs = [model(square), model(wide), model(square)]
    for output, images in zip(outputs, (square, wide, square), strict=True):
        fresh = small()(images)
        assert all(relative_difference(a, b) < 1e-6 for a, b in zip(output, fresh, strict=True))
    assert all(torch.equal(a, b) for a, b in zip(outputs[0], outputs[2], strict=True))


@pytest.mark.parametrize(("padded_keys", "shift_covered"), list(itertools.product(["attend", "mask"], [True, False])))
@pytest.mark.parametrize("options", [{}, {"absolute_pos_embed": (5, 7)}, {"window_size": (3, 5)}])
@torch.no_grad()
def test_a_batch_of_several_sizes_equals_its_members_alone(padded_keys, shift_covered, options):
    model = small(padded_keys=padded_keys, shift_covered=shift_covered, **options)
    images = 10 * torch.randn(len(HOSTILE_SIZES), 3, 97, 131)
    for precision, tolerance in ((torch.float32, 1e-5), (torch.float64, 1e-12)):
        model, images = model.to(precision), images.to(precision)
        joint = model(images, HOSTILE_SIZES)
        for i, (height, width) in enumerate(HOSTILE_SIZES):
            alone = model(images[i : i + 1, :, :height, :width])
            for level, expected in zip(joint, alone, strict=True):
                rows, columns = expected.shape[2:]
                assert relative_difference(level[i : i + 1, :, :rows, :columns], expected) < tolerance
                assert not level[i, :, rows:].any()
                assert not level[i, :, :, columns:].any()


@torch.no_grad()
def test_nan_in_the_padding_does_no_harm():
    model = small()
    images = torch.full((2, 3, 40, 60), torch.nan)
    images[0, :, :17, :60] = 1
    images[1] = 1
    assert all(level.isfinite().all() for level in model(images, [(17, 60), (40, 60)]))


def test_gradients_of_several_sizes_are_those_of_the_members():
    model = small().double()
    images = torch.randn(2, 3, 40, 60, dtype=torch.float64)
    sizes = [(40, 33), (9, 60)]
    joint = sum(level.square().sum() for level in model(images, sizes))
    alone = sum(
        level.square().sum()
        for i, (height, width) in enumerate(sizes)
        for level in model(images[i : i + 1, :, :height, :width])
    )
    gradients = [torch.autograd.grad(loss, list(model.parameters())) for loss in (joint, alone)]
    assert all(torch.allclose(a, b, rtol=1e-8, atol=1e-8) for a, b in zip(*gradients, strict=True))


def test_gradients_of_published_behaviour_pass_numerical_check():
    model = SwinTransformer(4, (2, 2), (1, 2), window_size=2, drop_path_rate=0.0).double()
    images = torch.randn(1, 3, 11, 14, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: tuple(model(x)), images, fast_mode=True)


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("window_size", 5),
        ("patch_size", 2),
        ("mlp_ratio", 2.0),
        ("qkv_bias", False),
        ("shift_covered", False),
        ("padded_keys", "mask"),
        ("absolute_pos_embed", (6, 6)),
    ],
)
@torch.no_grad()
def test_every_option_changes_the_result(option, value):
    images = torch.randn(1, 3, 40, 52)
    default, changed = small()(images), small(**{option: value})(images)
    assert default[3].shape != changed[3].shape or not torch.allclose(default[3], changed[3], rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("option", ["drop_rate", "attn_drop_rate", "drop_path_rate"])
@torch.no_grad()
def test_every_drop_rate_acts_in_training_only(option):
    rates = {"drop_rate": 0.0, "attn_drop_rate": 0.0, "drop_path_rate": 0.0}
    images = torch.randn(2, 3, 40, 52)
    plain_model, dropping = small(**rates), small(**(rates | {option: 0.5}))
    assert torch.equal(plain_model(images)[3], dropping(images)[3])
    assert torch.equal(plain_model.train()(images)[3], plain_model(images)[3])
    assert not torch.equal(dropping.train()(images)[3], dropping(images)[3])


def test_drop_path_rises_linearly():
    model = SwinTransformer(8, (2, 2, 3), (1, 1, 1), drop_path_rate=0.3)
    rates = [block.drop_path.p for stage in model.layers for block in stage.blocks]
    assert rates == pytest.approx([0, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3])


def test_bias_tables_start_small_unless_asked():
    torch.manual_seed(0)
    for options, std in (({}, 0.02), ({"bias_init_std": 0.7}, 0.7)):
        model = SwinTransformer(**SMALL, **options)
        table = model.layers[3].blocks[0].attn.position_bias.relative_position_bias_table
        assert table.std().item() == pytest.approx(std, rel=0.15)


@torch.no_grad()
def test_chunks_of_windows_change_nothing():
    images = torch.randn(2, 3, 60, 75, dtype=torch.float64)
    whole, chunked = small().double()(images), small(windows_per_chunk=3).double()(images)
    assert all(torch.allclose(a, b, rtol=1e-12, atol=1e-12) for a, b in zip(whole, chunked, strict=True))


@torch.no_grad()
@pytest.mark.parametrize("in_channels", [1, 4, 6])
def test_images_may_have_any_number_of_channels(in_channels):
    assert small(in_channels=in_channels)(torch.randn(1, in_channels, 33, 40))[3].shape == (1, 64, 2, 2)


@torch.no_grad()
def test_an_absolute_embedding_of_the_maps_grid_is_added_as_it_is():
    with_embedding, without = small(absolute_pos_embed=(8, 12)), small()
    embedding = with_embedding.absolute_pos_embed
    without.load_state_dict({k: v for k, v in with_embedding.state_dict().items() if k != "absolute_pos_embed"})
    without.patch_embed.norm.register_forward_hook(lambda *args: args[2] + embedding.permute(0, 2, 3, 1))
    images = torch.randn(2, 3, 32, 48)
    assert all(torch.equal(a, b) for a, b in zip(with_embedding(images), without(images), strict=True))


@torch.no_grad()
def test_half_precision_and_autocast_stay_close():
    model = small()
    images = torch.randn(1, 3, 60, 52)
    expected = model(images)
    with torch.autocast("cpu", torch.bfloat16):
        autocast = model(images)
    half = copy.deepcopy(model).bfloat16()(images.bfloat16())
    assert all(level.dtype == torch.bfloat16 for level in half)
    for output in (autocast, half):
        assert all(relative_difference(a.float(), b) < 0.1 for a, b in zip(output, expected, strict=True))


def test_training_follows_inference_mode():
    model = small()
    images = torch.randn(1, 3, 44, 61)
    with torch.inference_mode():
        model(images)
        model(images.expand(2, -1, -1, -1), [(44, 61), (20, 30)])
    model.train()(images)[3].sum().backward()
    model(images.expand(2, -1, -1, -1), [(44, 61), (20, 30)])[3].sum().backward()


def test_an_exported_model_gives_the_same_and_leaves_the_model_intact():
    model = SwinTransformer(4, (2, 2), (1, 2), window_size=3).eval()
    images = torch.randn(1, 3, 27, 30)
    exported = torch.export.export(model, (images,)).module()
    with torch.no_grad():
        assert all(torch.allclose(a, b, atol=1e-6) for a, b in zip(exported(images), model(images), strict=True))


@pytest.mark.parametrize(
    ("window_size", "expected"),
    [
        (7, [(7, 7)] * 4),
        ((3, 5), [(3, 5)] * 4),
        ([7, 7, 12, 4], [(7, 7), (7, 7), (12, 12), (4, 4)]),
        (((7, 7), (3, 5), 4, [2, 6]), [(7, 7), (3, 5), (4, 4), (2, 6)]),
    ],
)
def test_windows_are_given_once_or_per_stage(window_size, expected):
    assert stage_windows(window_size, 4) == expected
    model = SwinTransformer(**SMALL, window_size=window_size)
    assert [stage.blocks[1].attn.window for stage in model.layers] == expected
    assert [stage.blocks[1].attn.shift for stage in model.layers] == [(h // 2, w // 2) for h, w in expected]
    assert model(torch.randn(1, 3, 60, 75))[3].shape == (1, 64, 2, 3)


def test_two_numbers_are_a_pair_even_for_two_stages():
    assert stage_windows((3, 5), 2) == [(3, 5), (3, 5)]
    assert stage_windows(((3, 3), (5, 5)), 2) == [(3, 3), (5, 5)]


def test_settings_build_the_same_model_again():
    model = small(window_size=((7, 7), (3, 5), 4, 4), absolute_pos_embed=(5, 6), in_channels=2)
    again = build(plain(model.settings))
    again.load_state_dict(model.state_dict())
    images = torch.randn(1, 2, 33, 40)
    with torch.no_grad():
        assert all(torch.equal(a, b) for a, b in zip(model(images), again.eval()(images), strict=True))
