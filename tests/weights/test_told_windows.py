"""What tells the windows of weights beside the weights."""

import math

import pytest
import torch

from src.weights.told_windows import told_windows


def index(height: int, width: int) -> torch.Tensor:
    """The index of a window's table, from its definition."""
    places = [(row, column) for row in range(height) for column in range(width)]
    return torch.tensor(
        [[(a - c + height - 1) * (2 * width - 1) + b - d + width - 1 for c, d in places] for a, b in places]
    )


def coords(window: int, pretrained: int) -> torch.Tensor:
    """Log-spaced coordinates, from their definition."""
    offsets = torch.arange(-(window - 1), window).float() / max(pretrained - 1, 1) * 8
    logs = offsets.sign() * torch.log2(offsets.abs() + 1) / math.log2(8)
    return torch.stack(torch.meshgrid(logs, logs, indexing="ij"), -1)[None]


@pytest.mark.parametrize("window", [(7, 7), (4, 6), (6, 4), (1, 1), (1, 5), (12, 12), (2, 2)])
@pytest.mark.parametrize("flat", [False, True])
def test_an_index_tells_its_window(window, flat):
    value = index(*window)
    tensors = {"layers.0.blocks.0.attn.relative_position_index": value.flatten() if flat else value}
    told = told_windows(tensors, {}, "x.pth", 1)
    assert told.used == (window,)
    assert told.pretrained == (None,)


@pytest.mark.parametrize(
    "names",
    [
        "backbone.stages.{i}.blocks.0.attn.w_msa.relative_position_index",
        "encoder.layers.{i}.blocks.1.attention.self.relative_position_index",
        "layers_{i}.blocks.0.attn.relative_position_index",
    ],
)
def test_each_stage_has_its_own(names):
    tensors = {names.format(i=stage): index(window, window) for stage, window in enumerate((8, 8, 4, 2))}
    assert told_windows(tensors, {}, "x.pth", 4).used == ((8, 8), (8, 8), (4, 4), (2, 2))


def test_torchvision_counts_stages_by_twos():
    tensors = {f"features.{1 + 2 * stage}.0.attn.relative_position_index": index(3 + stage, 3) for stage in range(2)}
    assert told_windows(tensors, {}, "x.pth", 2).used == ((3, 3), (4, 3))


@pytest.mark.parametrize("pretrained", [8, 6, 12, 24])
def test_coordinates_tell_what_normalised_them(pretrained):
    tensors = {
        "layers.0.blocks.0.attn.relative_position_index": index(8, 8),
        "layers.0.blocks.0.attn.relative_coords_table": coords(8, pretrained),
    }
    expected = None if pretrained == 8 else (pretrained, pretrained)
    assert told_windows(tensors, {}, "x.pth", 1).pretrained == (expected,)


@pytest.mark.parametrize("value", [torch.zeros(7), torch.arange(16).view(4, 4), index(3, 3) + 1, torch.zeros(0)])
def test_an_index_that_is_none_tells_nothing(value):
    assert told_windows({"layers.0.blocks.0.attn.relative_position_index": value}, {}, "x.pth", 1) is None


def test_a_stage_without_index_leaves_it_open():
    assert told_windows({"layers.0.blocks.0.attn.relative_position_index": index(7, 7)}, {}, "x.pth", 4) is None


def test_a_config_of_transformers_tells():
    swin = {"model_type": "swin", "window_size": 7, "image_size": 224, "patch_size": 4}
    assert told_windows({}, {"config": swin}, "x", 4).used == ((7, 7),) * 4
    assert told_windows({}, {"config": {"model_type": "upernet", "backbone_config": swin}}, "x", 4).used[0] == (7, 7)
    second = {
        "model_type": "swinv2", "window_size": 16, "image_size": 256, "patch_size": 4,
        "pretrained_window_sizes": [12, 12, 12, 6],
    }  # fmt: skip
    told = told_windows({}, {"config": second}, "x", 4)
    assert told.used == ((16, 16), (16, 16), (16, 16), (8, 8))
    assert told.pretrained == ((12, 12), (12, 12), (12, 12), (6, 6))
    assert told_windows({}, {"config": second | {"pretrained_window_sizes": [0] * 4}}, "x", 4).pretrained == (None,) * 4


@pytest.mark.parametrize("config", [None, [], {}, {"model_type": "swin"}, {"model_type": "vit", "window_size": 7}])
def test_other_configs_tell_nothing(config):
    assert told_windows({}, {"config": config}, "x", 4) is None


@pytest.mark.parametrize(
    ("name", "used", "last", "pretrained"),
    [
        ("swinv2_tiny_window8_256", 8, 8, None),
        ("swinv2_tiny_patch4_window16_256.pth", 16, 8, None),
        ("swinv2_base_window12to24_192to384.ms_in22k_ft_in1k", 24, 12, 12),
        ("swinv2_base_patch4_window12to16_192to256_22kto1k_ft.pth", 16, 8, 12),
        ("swinv2_large_patch4_window12_192_22k.pth", 12, 6, None),
    ],
)
def test_a_published_name_tells(name, used, last, pretrained):
    for told in (
        told_windows({}, {}, f"/folder.of/window3_8/{name}", 4),
        told_windows({}, {"config": {"architecture": name.partition(".")[0]}}, "x", 4),
    ):
        assert told.used == (*((used, used),) * 3, (last, last))
        assert told.pretrained[0] == (pretrained and (pretrained, pretrained))
        assert told.pretrained[3] == (pretrained and (pretrained // 2, pretrained // 2))


@pytest.mark.parametrize("name", ["swin_tiny_patch4_window7_224.pth", "swinv2.pth", "window8_256.pth", ""])
def test_other_names_tell_nothing(name):
    assert told_windows({}, {}, name, 4) is None
