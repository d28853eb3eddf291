import pytest
import torch

from src.layers.position_bias import TableBias
from src.layers.window_attention import WindowAttention
from src.models.swin import SwinTransformer
from src.models.swin_encoder import SwinEncoder, stage_windows
from src.models.swin_v2 import SwinTransformerV2

SMALL = {"embed_dim": 4, "depths": (1, 2, 3), "num_heads": (1, 1, 2)}


def build(asked, **options):
    def attention(stage, dim, shift):
        asked.append((stage, dim, shift))
        return WindowAttention(dim, SMALL["num_heads"][stage], (2, 5), TableBias((2, 5), SMALL["num_heads"][stage]))

    rest = {"patch_size": 2, "in_channels": 3, "mlp_ratio": 2.0, "absolute_pos_embed": None}
    rates = {"drop_rate": 0.0, "attn_drop_rate": 0.0, "drop_path_rate": 0.5}
    return SwinEncoder(attention, [(2, 5)] * 3, **{"norm_after": False} | SMALL | rest | rates | options)


def test_every_second_block_of_a_stage_is_shifted_by_half_a_window():
    asked = []
    build(asked)
    still, moved = (0, 0), (1, 2)
    assert asked == [(0, 4, still), (1, 8, still), (1, 8, moved), (2, 16, still), (2, 16, moved), (2, 16, still)]


@pytest.mark.parametrize("norm_after", [False, True])
def test_the_place_of_the_norms_is_that_of_blocks_and_merges(norm_after):
    encoder = build([], norm_after=norm_after)
    parts = [part for stage in encoder.layers for part in (*stage.blocks, stage.downsample) if part is not None]
    assert [part.norm_after for part in parts] == [norm_after] * 8


@pytest.mark.parametrize("version", [SwinTransformer, SwinTransformerV2])
def test_the_versions_are_encoders_that_record_their_own_arguments(version):
    encoder = version(**SMALL, window_size=3)
    assert isinstance(encoder, SwinEncoder)
    assert encoder.takes_sizes
    assert "attention" not in encoder.settings["init_args"]
    assert encoder.settings["init_args"]["window_size"] == 3
    assert encoder.in_channels == 3
    assert [block.attn.num_heads for stage in encoder.layers for block in stage.blocks] == [1, 1, 1, 2, 2, 2]


@pytest.mark.parametrize("version", [SwinTransformer, SwinTransformerV2])
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
