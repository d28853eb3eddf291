from unittest import mock

import pytest
import torch

from src.layers.position_bias import TableBias
from src.layers.window_attention import WindowAttention
from src.models.swin import SwinTransformer
from src.models.swin_encoder import SwinEncoder, stage_windows
from src.models.swin_v2 import SwinTransformerV2
from tests.layers.largest_tensor import LargestTensor

VERSIONS = [SwinTransformer, SwinTransformerV2]
SMALL = {"embed_dim": 4, "depths": (1, 2, 3), "num_heads": (1, 1, 2)}
OF_ATTENTION = {
    "shift_covered": False,
    "padded_keys": "mask",
    "qkv_bias": False,
    "attn_drop_rate": 0.125,
    "drop_rate": 0.25,
    "windows_per_chunk": 3,
}


def build(attention=WindowAttention, position_bias=lambda stage, window, heads: TableBias(window, heads), **options):
    rest = {"window_size": (2, 5), "patch_size": 2, "in_channels": 3, "mlp_ratio": 2.0, "absolute_pos_embed": None}
    given = {"norm_after": False, "drop_path_rate": 0.5} | SMALL | rest | OF_ATTENTION | options
    return SwinEncoder(attention, position_bias, **given)


def test_every_second_block_of_a_stage_is_shifted_by_half_a_window():
    encoder = build(window_size=((2, 5), 3, 1))
    shifts = [[block.attn.shift for block in stage.blocks] for stage in encoder.layers]
    assert shifts == [[(0, 0)], [(0, 0), (1, 1)], [(0, 0)] * 3]
    assert build().layers[1].blocks[1].attn.shift == (1, 2)


def test_attention_is_made_with_the_sizes_of_its_stage_and_every_option():
    attention = mock.Mock(side_effect=WindowAttention)
    biases = []

    def position_bias(*asked):
        biases.append(asked)
        return TableBias(*asked[1:])

    encoder = build(attention, position_bias, window_size=((2, 5), 3, 1))
    sizes = [(0, 4, 1, (2, 5))] + 2 * [(1, 8, 1, (3, 3))] + 3 * [(2, 16, 2, (1, 1))]
    assert biases == [(stage, window, heads) for stage, _, heads, window in sizes]
    blocks = [block for stage in encoder.layers for block in stage.blocks]
    for call, block, (_, dim, heads, window) in zip(attention.call_args_list, blocks, sizes, strict=True):
        assert call.args[:4] == (dim, heads, window, block.attn.position_bias)
        assert call.kwargs == OF_ATTENTION


@pytest.mark.parametrize("norm_after", [False, True])
def test_the_place_of_the_norms_is_that_of_blocks_and_merges(norm_after):
    encoder = build(norm_after=norm_after)
    parts = [part for stage in encoder.layers for part in (*stage.blocks, stage.downsample) if part is not None]
    assert [part.norm_after for part in parts] == [norm_after] * 8


@pytest.mark.parametrize("version", VERSIONS)
@torch.no_grad()
def test_the_output_of_attention_is_dropped_too(version):
    encoder = version(**SMALL, window_size=3, drop_rate=0.5).eval()
    torch.nn.init.ones_(encoder.layers[0].blocks[0].norm1.weight)
    images = torch.randn(1, 3, 24, 24)
    assert torch.equal(encoder(images)[0], encoder(images)[0])
    encoder.layers[0].blocks[0].attn.train()
    assert not torch.equal(encoder(images)[0], encoder(images)[0])


@pytest.mark.parametrize("version", VERSIONS)
def test_chunks_of_windows_bound_the_largest_tensor(version):
    sizes = {"embed_dim": 8, "depths": (2,), "num_heads": (8,), "window_size": 4, "mlp_ratio": 1.0}
    largest = {}
    for chunk in (None, 2):
        encoder = version(**sizes, windows_per_chunk=chunk).eval()
        with LargestTensor() as made:
            encoder(torch.randn(1, 3, 128, 128))
        largest[chunk] = made.numel
    assert largest[None] >= 64 * 8 * 16 * 16  # the weights of all windows and heads
    assert largest[2] <= 3 * 128 * 128


@pytest.mark.parametrize("version", VERSIONS)
@torch.no_grad()
def test_without_gradients_no_mask_is_made_for_all_windows(version):
    sizes = {"embed_dim": 8, "depths": (2,), "num_heads": (8,), "window_size": 4, "mlp_ratio": 1.0}
    with LargestTensor() as made:
        version(**sizes).eval()(torch.randn(1, 3, 128, 128))
    assert made.numel <= 3 * 128 * 128


@pytest.mark.parametrize("version", VERSIONS)
def test_the_versions_are_encoders_that_record_their_own_arguments(version):
    encoder = version(**SMALL, window_size=3)
    assert isinstance(encoder, SwinEncoder)
    assert encoder.takes_sizes
    assert "attention" not in encoder.settings["init_args"]
    assert encoder.settings["init_args"]["window_size"] == 3
    assert encoder.in_channels == 3
    assert [block.attn.num_heads for stage in encoder.layers for block in stage.blocks] == [1, 1, 1, 2, 2, 2]


@pytest.mark.parametrize("version", VERSIONS)
@torch.no_grad()
def test_outside_their_true_size_images_have_no_features(version):
    encoder = version(**SMALL, window_size=3).eval()
    features = encoder(torch.full((2, 3, 24, 24), torch.inf), [(1, 24), (9, 5)])
    for level, (height, width) in zip(features, [(6, 6), (3, 3), (2, 2)], strict=True):
        assert level.shape[2:] == (height, width)
        assert not level[0, :, 1:].any()


def test_windows_of_nothing_are_allowed_where_asked():
    assert stage_windows((0, (2, 0), 3), 3, "some_size", least=0) == [(0, 0), (2, 0), (3, 3)]
    with pytest.raises(ValueError, match=r"encoder\.some_size must be a whole number from 0 up, .* got -1; .*\.$"):
        stage_windows(-1, 3, "some_size", least=0)
    with pytest.raises(ValueError, match="window_size must be a whole number from 1 up"):
        stage_windows(0, 3)
