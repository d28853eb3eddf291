import copy
import itertools
import math

import pytest
import torch

from src.models.settings import build, plain
from src.models.swin import SWIN_SIZES, SwinTransformer
from src.models.swin_v2 import SwinTransformerV2
from tests.models.random_weights import randomise

SMALL = {"embed_dim": 8, "depths": (2, 2, 2, 2), "num_heads": (1, 2, 2, 4)}
HOSTILE_SIZES = [(1, 1), (97, 131), (8, 9), (29, 131), (97, 28), (56, 57), (33, 5)]
KINDS = ("weight", "bias")


def small(**options):
    torch.manual_seed(0)
    return randomise(SwinTransformerV2(**(SMALL | options)))


def relative_difference(a, b):
    return ((a - b).abs().max() / b.abs().max()).item()


@pytest.mark.parametrize("size", [(1, 1), (37, 53), (3, 250), (250, 3), (64, 96), (256, 32)])
@torch.no_grad()
def test_any_size_gives_its_grids_channels_first(size):
    model = small()
    assert model.feature_specs == SwinTransformer(**SMALL).feature_specs
    features = model(torch.randn(2, 3, *size))
    assert [tuple(level.shape) for level in features] == [
        (2, spec.channels, -(-size[0] // spec.stride), -(-size[1] // spec.stride)) for spec in model.feature_specs
    ]
    assert all(level.isfinite().all() and level.is_contiguous() for level in features)


@pytest.mark.parametrize(("name", "millions"), [("tiny", 27.6), ("small", 49.0), ("base", 86.9), ("large", 195.2)])
def test_published_sizes_have_the_published_number_of_parameters(name, millions):
    with torch.device("meta"):
        model = SwinTransformerV2(**SWIN_SIZES[name]._asdict())
    assert sum(parameter.numel() for parameter in model.parameters()) / 1e6 == pytest.approx(millions, rel=0.01)


def test_names_are_those_of_the_published_checkpoints():
    model = small(absolute_pos_embed=(4, 4))
    shapes = {name: tuple(value.shape) for name, value in model.state_dict().items()}
    block = {f"{part}.{kind}" for part in ("norm1", "attn.proj", "norm2", "mlp.fc1", "mlp.fc2") for kind in KINDS}
    block |= {"attn.qkv.weight", "attn.q_bias", "attn.v_bias", "attn.logit_scale"}
    block |= {f"attn.position_bias.mlp.{name}" for name in ("0.weight", "0.bias", "2.weight")}
    expected = {"absolute_pos_embed"}
    expected |= {f"patch_embed.{part}.{kind}" for part in ("proj", "norm") for kind in KINDS}
    expected |= {f"layers.{i}.blocks.{j}.{name}" for i in range(4) for j in range(2) for name in block}
    expected |= {f"layers.{i}.downsample.{name}" for i in range(3) for name in ("norm.weight", "norm.bias")}
    expected |= {f"layers.{i}.downsample.reduction.weight" for i in range(3)}
    expected |= {f"norm{i}.{kind}" for i in range(4) for kind in KINDS}
    assert set(shapes) == expected
    assert shapes["layers.1.downsample.norm.weight"] == (32,)
    assert shapes["layers.1.downsample.reduction.weight"] == (32, 64)
    assert shapes["layers.3.blocks.0.attn.logit_scale"] == (4, 1, 1)
    assert shapes["layers.3.blocks.0.attn.position_bias.mlp.0.weight"] == (512, 2)
    assert list(model.buffers()) == []


@pytest.mark.parametrize("window_size", [3, 8, (3, 5), (8, 8, 4, 2)])
@torch.no_grad()
def test_the_state_fits_every_window_and_does_not_follow_images(window_size):
    model = small(window_size=window_size)
    before = {name: value.shape for name, value in small().state_dict().items()}
    model(torch.randn(1, 3, 70, 45))
    model(torch.randn(2, 3, 33, 90), [(33, 90), (5, 6)])
    assert {name: value.shape for name, value in model.state_dict().items()} == before


@torch.no_grad()
def test_a_new_model_begins_as_its_patches_and_merges_alone():
    torch.manual_seed(0)
    model = SwinTransformerV2(**SMALL).eval()
    for name, value in model.named_parameters():
        part = name.partition("blocks.")[2].partition(".")[2]
        if part.startswith("norm") or (part.endswith("bias") and "mlp.0" not in part):
            assert not value.any(), name
        elif part == "attn.logit_scale":
            assert value.flatten().tolist() == pytest.approx([math.log(10)] * len(value))
        elif part.endswith("weight") and value.numel() > 500:
            assert value.std().item() == pytest.approx(0.02, rel=0.15), name
    assert not model.layers[0].blocks[0].attn.position_bias.mlp[0].bias.any()
    images = torch.randn(1, 3, 40, 52)
    x = model.patch_embed(images)
    for i, level in enumerate(model(images)):
        assert torch.equal(level, model.get_submodule(f"norm{i}")(x).permute(0, 3, 1, 2))
        x = model.layers[i].downsample(x) if i < 3 else x


@pytest.mark.parametrize(("padded_keys", "shift_covered"), list(itertools.product(["attend", "mask"], [True, False])))
@pytest.mark.parametrize(
    "options", [{}, {"absolute_pos_embed": (5, 7)}, {"window_size": (3, 5), "pretrained_window_size": 6}]
)
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
    images = torch.full((2, 3, 40, 60), torch.nan)
    images[0, :, :17, :60] = 1
    images[1] = 1
    assert all(level.isfinite().all() for level in small()(images, [(17, 60), (40, 60)]))


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
    gradients = [torch.autograd.grad(loss, list(model.parameters()), allow_unused=True) for loss in (joint, alone)]
    for name, a, b in zip(dict(model.named_parameters()), *gradients, strict=True):
        assert torch.allclose(a, b, rtol=1e-7, atol=1e-7 * b.abs().max().item()), name


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("window_size", 5),
        ("pretrained_window_size", 5),
        ("pretrained_window_size", (12, 8)),
        ("patch_size", 2),
        ("mlp_ratio", 2.0),
        ("qkv_bias", False),
        ("shift_covered", True),
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


@torch.no_grad()
def test_chunks_of_windows_change_nothing():
    images = torch.randn(2, 3, 60, 75, dtype=torch.float64)
    whole, chunked = small().double()(images), small(windows_per_chunk=3).double()(images)
    assert all(torch.allclose(a, b, rtol=1e-12, atol=1e-12) for a, b in zip(whole, chunked, strict=True))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@torch.no_grad()
def test_half_precision_and_autocast_stay_close(dtype):
    model = small()
    images = torch.randn(1, 3, 60, 52)
    expected = model(images)
    with torch.autocast("cpu", dtype):
        autocast = model(images)
    half = copy.deepcopy(model).to(dtype)(images.to(dtype))
    assert all(level.dtype == dtype for level in half)
    for output in (autocast, half):
        assert all(relative_difference(a.float(), b) < 0.15 for a, b in zip(output, expected, strict=True))


def test_training_in_half_precision_has_finite_gradients_where_maps_are_padded():
    model = small().train()
    with torch.autocast("cpu", torch.float16):
        loss = sum(level.float().square().mean() for level in model(torch.randn(2, 3, 45, 61)))
    loss.backward()
    assert all(parameter.grad.isfinite().all() for parameter in model.parameters())


def test_training_follows_inference_mode():
    model = small()
    images = torch.randn(1, 3, 44, 61)
    with torch.inference_mode():
        model(images)
        model(images.expand(2, -1, -1, -1), [(44, 61), (20, 30)])
    model.train()(images)[3].sum().backward()
    model(images.expand(2, -1, -1, -1), [(44, 61), (20, 30)])[3].sum().backward()


def test_an_exported_model_gives_the_same():
    model = randomise(SwinTransformerV2(4, (2,), (1,), window_size=3))
    images = torch.randn(1, 3, 14, 15)
    exported = torch.export.export(model, (images,)).module()
    with torch.no_grad():
        assert torch.allclose(exported(images)[0], model(images)[0], atol=1e-5)


def test_settings_build_the_same_model_again():
    model = small(window_size=((7, 7), (3, 5), 4, 4), pretrained_window_size=(12, 12, 12, 6), in_channels=2)
    assert plain(model.settings)["class_path"] == "src.models.swin_v2.SwinTransformerV2"
    again = build(plain(model.settings))
    again.load_state_dict(model.state_dict())
    images = torch.randn(1, 2, 33, 40)
    with torch.no_grad():
        assert all(torch.equal(a, b) for a, b in zip(model(images), again.eval()(images), strict=True))
