"""The sizes of a model, from its weights alone."""

import functools

import pytest
import torch

from src.models import FCNHead, Segmenter, UPerNetDecoder
from src.models.settings import build
from src.weights.described import described_encoder, described_heads
from tests.weights.files import encoder, segmenter


def below(model) -> dict[str, torch.Tensor]:
    return {f"encoder.{name}": value for name, value in model.state_dict().items()}


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"depths": (1, 2, 3, 1), "num_heads": (2, 4, 8, 16), "embed_dim": 16},
        {"depths": (2, 1), "num_heads": (1, 2)},
        {"window_size": (7, 5, 3, 1)},
        {"patch_size": 2, "in_channels": 5, "mlp_ratio": 2.5},
        {"qkv_bias": False},
        {"absolute_pos_embed": (6, 9)},
    ],
    ids=str,
)
@pytest.mark.parametrize("version", [1, 2])
def test_a_model_of_these_sizes_takes_the_weights(settings, version):
    model = encoder(version, **settings)
    windows = [stage.blocks[0].attn.window for stage in model.layers]
    told = described_encoder(below(model), windows if version == 2 else None)
    assert told.version == version
    again = build(told.settings).eval()
    again.load_state_dict(model.state_dict())
    images = torch.randn(1, settings.get("in_channels", 3), 61, 43)
    with torch.no_grad():
        again.layers[0].blocks[0].attn.shift_covered = model.layers[0].blocks[0].attn.shift_covered
        for ours, theirs in zip(again(images), model(images), strict=True):
            assert torch.equal(ours, theirs)


@pytest.mark.parametrize(("embed_dim", "ratio"), [(16, 2.7), (32, 2.7), (8, 2.7), (24, 3.33), (16, 1.05), (8, 0.5)])
def test_the_ratio_of_the_mlps_gives_the_width_of_every_stage(embed_dim, ratio):
    model = encoder(embed_dim=embed_dim, mlp_ratio=ratio)
    told = described_encoder(below(model)).mlp_ratio
    assert [stage.blocks[0].mlp.fc1.out_features for stage in model.layers] == [
        int(told * embed_dim * 2**stage) for stage in range(4)
    ]
    assert len(str(told)) <= len(str(ratio))


def test_widths_of_mlps_that_no_ratio_gives_are_described_by_the_first_kind():
    state = below(encoder(embed_dim=16))
    state["encoder.layers.1.blocks.0.mlp.fc1.weight"] = torch.zeros(99, 32)
    assert described_encoder(state).mlp_ratio == 4


def test_windows_that_are_not_square_must_be_told():
    model = encoder(window_size=(3, 5))
    with pytest.raises(ValueError, match=r"must be those of a Swin encoder.*45 rows is of no square window"):
        described_encoder(below(model))
    assert described_encoder(below(model), [(3, 5)] * 4).settings["init_args"]["window_size"] == [3, 5]
    with pytest.raises(ValueError, match="45 rows is not of a window of 3x4"):
        described_encoder(below(model), [(3, 4)] * 4)


def test_the_second_version_without_a_window_cannot_be_built():
    told = described_encoder(below(encoder(2)))
    assert told.windows is None
    with pytest.raises(ValueError, match="the window of this Swin V2 must be known"):
        _ = told.settings


def test_windows_of_the_pretraining_are_said_as_short_as_can_be():
    state = below(encoder(2))
    arguments = described_encoder(state, [(8, 8)] * 4, [(12, 12)] * 4).settings["init_args"]
    assert (arguments["window_size"], arguments["pretrained_window_size"]) == (8, 12)
    by_stage = described_encoder(state, [(8, 8)] * 3 + [(4, 6)], [(12, 12)] * 3 + [None]).settings["init_args"]
    assert (by_stage["window_size"], by_stage["pretrained_window_size"]) == ([8, 8, 8, [4, 6]], [12, 12, 12, 0])
    assert "pretrained_window_size" not in described_encoder(state, [(8, 8)] * 4, [None] * 4).settings["init_args"]


@pytest.mark.parametrize("lacking", ["patch_embed.proj.weight", "layers.0.blocks.0.mlp.fc1.weight"])
def test_weights_of_something_else_are_refused(lacking):
    state = below(encoder())
    state.pop(f"encoder.{lacking}")
    with pytest.raises(ValueError, match=f"must be those of a Swin encoder, got others .*{lacking}"):
        described_encoder(state)


def test_heads_are_described():
    told = described_heads(segmenter(7).state_dict())
    assert (told.num_classes, told.channels, told.num_pools) == (7, 8, 4)
    assert (told.auxiliary_channels, told.auxiliary_convs, told.auxiliary_level) == (8, 1, 2)


def test_an_auxiliary_head_without_a_convolution_is_described():
    model = Segmenter(
        encoder(),
        functools.partial(UPerNetDecoder, channels=8),
        functools.partial(FCNHead, level=1, num_convs=0),
        num_classes=7,
    )
    told = described_heads(model.state_dict())
    assert (told.auxiliary_channels, told.auxiliary_convs, told.auxiliary_level) == (16, 0, 1)


def test_no_heads_are_none_and_no_auxiliary_is_told():
    state = segmenter(7).state_dict()
    assert described_heads({name: value for name, value in state.items() if name.startswith("encoder.")}) is None
    alone = described_heads({name: value for name, value in state.items() if not name.startswith("auxiliary.")})
    assert (alone.auxiliary_channels, alone.auxiliary_convs) == (None, 0)
