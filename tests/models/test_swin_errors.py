import pytest
import torch

from src.models.swin import SwinTransformer
from src.models.swin_v2 import SwinTransformerV2

VERSIONS = [SwinTransformer, SwinTransformerV2]
SMALL = {"embed_dim": 8, "depths": (2, 2, 2, 2), "num_heads": (1, 2, 2, 4)}


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"depths": (2, 2, 2)},
            "encoder.depths and num_heads must have one entry per stage, got 3 depths and 4 heads",
        ),
        ({"num_heads": (1, 2, 3, 4)}, "num_heads must divide the channels of each stage, got 3 heads for 32 channels"),
        ({"num_heads": (0, 2, 2, 4)}, "model.model.encoder.num_heads must divide"),
        ({"depths": (2, 0, 2, 2)}, "depths must be at least 1 each"),
        ({"embed_dim": 0}, "model.model.encoder.embed_dim must be at least 1, got 0"),
        ({"in_channels": 0}, "in_channels must be at least 1, got 0"),
        ({"patch_size": 0}, "patch_size must be at least 1, got 0"),
        ({"window_size": 0}, "model.model.encoder.window_size must be a whole number from 1 up"),
        ({"window_size": (7, 7, 7)}, "for each of the 4 stages, got"),
        ({"window_size": (7, 7, 7, (1, 2, 3))}, "window_size must be"),
        ({"window_size": (7, -1)}, "window_size must be"),
        ({"padded_keys": "ignore"}, "padded_keys must be attend or mask, got 'ignore'"),
        ({"absolute_pos_embed": (0, 3)}, "absolute_pos_embed must be"),
        ({"windows_per_chunk": 0}, "windows_per_chunk must be at least 1"),
        ({"drop_path_rate": 1.5}, "drop_path_rate must be between 0 and 1, got 1.5"),
        ({"drop_rate": -0.1}, "drop_rate must be between 0 and 1, got -0.1"),
    ],
)
def test_unusable_settings_are_refused(version, options, message):
    with pytest.raises(ValueError, match=rf"{message}.*; .*\.$"):
        version(**(SMALL | options))


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("shape", "sizes", "message"),
    [
        (
            (1, 4, 32, 32),
            None,
            r"images must be \(B, 3, H, W\), got .*; set model\.model\.encoder\.in_channels",
        ),
        ((3, 32, 32), None, "images must be"),
        ((1, 3, 0, 32), None, "at least one pixel"),
        ((0, 3, 32, 32), None, "at least one"),
        ((2, 3, 32, 32), [(32, 32)], "sizes must have one entry per image, got 1 for 2 images"),
        ((1, 3, 32, 32), [(32, 33)], r"sizes must be between 1x1 and the batch's 32x32, got \(32, 33\)"),
        ((1, 3, 32, 32), [(0, 32)], "sizes must be between 1x1"),
    ],
)
def test_unusable_images_are_refused(version, shape, sizes, message):
    with pytest.raises(ValueError, match=message):
        version(**SMALL)(torch.zeros(shape), sizes)
