import numpy as np
import pytest
from drawn_files import REAL_DATA, labels, save
from PIL import Image

from src.data.checks.smooth import smooth_share
from src.data.sample_pictures import draw_picture
from src.image_io import read_mask

SMOOTH = ["BILINEAR", "BICUBIC", "LANCZOS"]
FACTORS = [0.5, 0.75, 1.3, 3]


def resized(mask: np.ndarray, factor: float, name: str) -> np.ndarray:
    size = (round(mask.shape[1] * factor), round(mask.shape[0] * factor))
    return np.asarray(Image.fromarray(mask).resize(size, Image.Resampling[name]))


def real_masks() -> list[np.ndarray]:
    paths = [path for kind in ("camvid", "ade20k_sample") for path in sorted((REAL_DATA / kind).rglob("*.png"))[::40]]
    return [read_mask(path) for path in paths]


@pytest.mark.parametrize("factor", FACTORS)
@pytest.mark.parametrize("name", ["NEAREST", *SMOOTH])
def test_a_smooth_filter_shows_and_the_nearest_neighbour_does_not(name, factor):
    for index in range(3):
        share = smooth_share(resized(draw_picture(2021, index)[1], factor, name))
        assert share > 0.4 if name in SMOOTH else share < 0.2


@pytest.mark.skipif(not (REAL_DATA / "camvid").is_dir(), reason="the real masks are not beside the checkout")
@pytest.mark.parametrize("name", ["NEAREST", *SMOOTH])
def test_a_smooth_filter_shows_in_real_masks(name):
    for mask in real_masks():
        assert smooth_share(mask) < 0.1
        share = smooth_share(resized(mask, 0.75, name))
        assert share > 0.37 if name in SMOOTH else share < 0.1


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.int32])
def test_noise_is_not_smooth(dtype):
    for count in (2, 3, 10, 250):
        assert smooth_share(labels((100, 100), range(count)).astype(dtype)) <= 0.34


def test_too_few_edges_say_nothing():
    assert smooth_share(np.arange(8, dtype=np.uint8)[None]) == 0
    assert smooth_share(np.zeros((1, 1), np.uint8)) == 0
    assert smooth_share(np.zeros((0, 5), np.uint8)) == 0


def test_smooth_masks_are_named_even_where_every_value_is_a_class(drawn, findings, tmp_path):
    disc = (np.hypot(*(np.indices((64, 64)) - 32)) < 20).astype(np.uint8)
    sharp = [disc * 40, disc * 30 + 10]
    data = drawn([*sharp, *sharp], "".join(f"class {index}\n" for index in range(41)))
    assert not [finding for finding in findings(data) if "smooth" in finding.message]
    save(tmp_path / "train" / "masks" / "001.png", resized(resized(sharp[1], 0.5, "NEAREST"), 2, "BILINEAR"))
    (finding,) = [finding for finding in findings(data) if "smooth" in finding.message]
    assert finding.severity == "warning"
    assert finding.message.startswith("1 of the 4 training masks have values between those of their neighbours")
    assert f"{tmp_path}/train/masks/001.png. " in finding.message
    assert "nearest neighbour" in finding.message
