"""Masks whose stored numbers a decoder changes, or a compression has changed already."""

import warnings
from pathlib import Path

import numpy as np
import pytest
from drawn_files import save
from PIL import Image

from src.image_io import read_image, read_mask

RAMP = np.kron(np.arange(64, dtype=np.uint8).reshape(8, 8), np.ones((2, 2), np.uint8))
GREY = np.stack([RAMP] * 3, axis=2)


@pytest.mark.parametrize("brightest", [1, 2, 5, 150, 254, 255, 256, 300, 65534, 65535])
@pytest.mark.parametrize("kind", ["P2", "P5"])
def test_numbers_of_a_pgm_are_not_stretched_to_its_brightest(tmp_path: Path, kind: str, brightest: int):
    ids = np.arange(brightest + 1)[None]
    body = " ".join(map(str, ids[0])).encode() if kind == "P2" else ids.astype(">u2" if brightest > 255 else "u1")
    (tmp_path / "mask.pgm").write_bytes(f"{kind}\n{ids.size} 1\n{brightest}\n".encode() + bytes(body))
    mask = read_mask(tmp_path / "mask.pgm")
    assert np.array_equal(mask, ids)
    assert np.issubdtype(mask.dtype, np.integer)


def test_numbers_of_a_ppm_are_not_stretched_and_those_of_16_bits_not_cut(tmp_path: Path):
    path = tmp_path / "mask.ppm"
    path.write_bytes(b"P6 2 1 7\n" + bytes([0, 0, 0, 3, 3, 3]))
    assert read_mask(path).tolist() == [[0, 3]]
    assert read_image(path)[0, :, 0].tolist() == [0, 109]  # 3 of 7 parts of 255
    path.write_bytes(b"P6 2 1 300\n" + np.array([0, 0, 0, 299, 299, 299], ">u2").tobytes())
    with pytest.raises(ValueError, match=r"got mode RGB;16 in .*mask\.ppm"):
        read_mask(path)
    with pytest.raises(ValueError, match=r"8 bits a channel, got mode RGB;16 in .*mask\.ppm"):
        read_image(path)


@pytest.mark.parametrize(
    ("name", "pixels", "options", "kind"),
    [
        ("mask.jpg", RAMP, {}, "JPEG"),
        ("mask.tif", RAMP, {"compression": "jpeg"}, "TIFF with JPEG inside"),
        ("mask.webp", GREY, {}, "lossy WebP"),
        ("mask.webp", GREY, {"exif": Image.Exif().tobytes()}, "lossy WebP"),
        ("mask.webp", GREY, {"save_all": True, "append_images": [Image.new("RGB", (16, 16))]}, "lossy WebP"),
    ],
)
def test_masks_stored_with_loss_are_refused(tmp_path: Path, name: str, pixels: np.ndarray, options: dict, kind: str):
    path = save(tmp_path / name, pixels, **options)
    with pytest.raises(ValueError, match=rf"without loss, got {kind} with \d+ distinct values in {path}; it changes"):
        read_mask(path)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("mask.webp", {"lossless": True}),
        ("mask.webp", {"lossless": True, "exif": Image.Exif().tobytes()}),
        ("mask.tif", {"compression": "tiff_lzw"}),
        ("mask.tif", {"compression": "tiff_adobe_deflate"}),
    ],
)
def test_masks_compressed_without_loss_come_back_whole(tmp_path: Path, name: str, options: dict):
    path = save(tmp_path / name, GREY, **options)
    assert np.array_equal(read_mask(path), RAMP)


@pytest.mark.parametrize("cut", [12, 16, 20, 30, 40])
def test_a_cut_webp_is_named(tmp_path: Path, cut: int):
    path = save(tmp_path / "mask.webp", GREY, lossless=True)
    path.write_bytes(path.read_bytes()[:cut])
    with warnings.catch_warnings(), pytest.raises(ValueError, match=r"mask\.webp cannot be read as an image"):
        warnings.simplefilter("ignore")
        read_mask(path)
