import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from drawn_files import save, texture
from PIL import Image

from src.image_io import image_size, read_image, read_mask

TURNED = Image.Exif()
TURNED[0x0112] = 6


def test_size_is_read_from_the_head_alone(tmp_path: Path):
    path = save(tmp_path / "image.png", texture((30, 50)))
    path.write_bytes(path.read_bytes()[:100])
    assert image_size(path) == (30, 50)


@pytest.mark.parametrize("read", [read_image, read_mask, image_size])
@pytest.mark.parametrize("name", ["large.png", "large.tif", "large.webp", "large.gif"])
def test_the_number_of_pixels_is_limited(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, read: Callable[..., object], name: str
):
    path = save(tmp_path / name, np.zeros((64, 64, 3), np.uint8), lossless=True)
    for limit, max_pixels in ((1000, None), (2047, None), (None, 4095), (10**9, 4095), (1000, 1)):
        monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", limit)
        with pytest.raises(ValueError, match=rf"{name} .*data\.max_image_pixels .*\(4096 pixels\).* raise it if you"):
            read(path, max_pixels=max_pixels)
        assert limit == Image.MAX_IMAGE_PIXELS
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for limit, max_pixels in ((2048, None), (4000, None), (None, None), (1000, 4096), (None, 4096)):
            monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", limit)
            read(path, max_pixels=max_pixels)
            assert limit == Image.MAX_IMAGE_PIXELS


JPEGS = {"baseline": {}, "progressive": {"progressive": True}, "grey": {"mode": "L"}, "turned": {"exif": TURNED}}


@pytest.mark.parametrize("kind", JPEGS)
@pytest.mark.parametrize(
    ("least", "factor"), [((201, 301), 1), ((200, 301), 1), ((200, 300), 2), ((51, 76), 4), ((50, 75), 8), ((1, 1), 8)]
)
def test_a_jpeg_is_decoded_at_a_part_of_its_size_and_never_below(
    tmp_path: Path, kind: str, least: tuple[int, int], factor: int
):
    smooth = np.linspace(0, 255, 401 * 601).reshape(401, 601).astype(np.uint8)
    path = save(tmp_path / "a.jpg", np.stack([smooth, smooth.copy(), 255 - smooth], axis=2), **JPEGS[kind])
    if kind == "turned":
        least = least[::-1]
    whole, part = read_image(path), read_image(path, least=least)
    assert part.shape == (*(-(-side // factor) for side in whole.shape[:2]), 3)
    assert part.shape[0] >= least[0]
    assert part.shape[1] >= least[1]
    centres = whole[factor // 2 :: factor, factor // 2 :: factor]
    height, width = centres.shape[:2]
    assert np.abs(part[:height, :width].astype(int) - centres).mean() < 6


@pytest.mark.parametrize("name", ["a.png", "a.webp", "a.tif"])
def test_other_files_are_decoded_whole(tmp_path: Path, name: str):
    path = save(tmp_path / name, texture((40, 60)))
    assert np.array_equal(read_image(path, least=(5, 5)), read_image(path))


@pytest.mark.parametrize("name", ["large.png", "large.tif"])
def test_threads_do_not_meet_each_others_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str):
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 1000)
    path = save(tmp_path / name, texture((64, 64)))

    def read(number: int) -> bool:
        try:
            read_image(path, max_pixels=10_000 if number % 2 else None)
        except ValueError:
            return False
        return True

    filters = list(warnings.filters)
    with ThreadPoolExecutor(8) as threads:
        assert list(threads.map(read, range(200))) == [False, True] * 100
    assert list(warnings.filters) == filters
