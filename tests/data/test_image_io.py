import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
from drawn_files import save, texture
from PIL import Image

from src.data.image_io import image_size, read_image, read_mask


def save_palette(path: Path, ids: np.ndarray, **options: int) -> Path:
    image = Image.fromarray(ids.astype(np.uint8)).convert("P")
    image.putdata(ids.ravel().tolist())
    image.putpalette([0, 0, 0, 255, 0, 0, 0, 255, 0, 0, 0, 255])
    image.save(path, **options)
    return path


@pytest.mark.parametrize("bits", [2, 4, 8])
def test_palette_masks_give_indices_not_colours(tmp_path: Path, bits: int):
    ids = np.arange(16).reshape(4, 4) % 4
    mask = read_mask(save_palette(tmp_path / "mask.png", ids, bits=bits))
    assert mask.tolist() == ids.tolist()


def test_three_equal_channels_are_one_mask(tmp_path: Path):
    ids = np.arange(16, dtype=np.uint8).reshape(4, 4) % 3
    mask = read_mask(save(tmp_path / "mask.png", np.stack([ids] * 3, axis=-1)))
    assert mask.shape == (4, 4)
    assert mask.tolist() == ids.tolist()


@pytest.mark.parametrize(
    ("name", "ids", "mode"),
    [
        ("mask.png", np.array([[0, 7], [255, 1]], np.uint8), "L"),
        ("mask.png", np.array([[0, 1], [1, 0]], bool), "1"),
        ("mask.tif", np.array([[0, 70000], [1, 3]], np.int32), "I"),
        ("mask.png", np.array([[0, 300], [65535, 3]], np.uint16), "I;16"),
        ("mask.tif", np.array([[0, 300], [65535, 3]], np.uint16), "I;16"),
    ],
)
def test_stored_numbers_come_back_as_integers(tmp_path: Path, name: str, ids: np.ndarray, mode: str):
    path = save(tmp_path / name, ids)
    assert Image.open(path).mode == mode
    mask = read_mask(path)
    assert mask.astype(np.int64).tolist() == ids.astype(np.int64).tolist()
    assert np.issubdtype(mask.dtype, np.integer)


@pytest.mark.parametrize("bits", [2, 4])
def test_grey_masks_of_few_bits_are_not_stretched(tmp_path: Path, bits: int):
    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    row = bytes([0b00011011]) if bits == 2 else bytes([0x01, 0x23])
    head = struct.pack(">IIBBBBB", 4, 1, bits, 0, 0, 0, 0)
    path = tmp_path / "mask.png"
    path.write_bytes(
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(b"\0" + row)) + chunk(b"IEND", b"")
    )
    assert read_mask(path).tolist() == [[0, 1, 2, 3]]


@pytest.mark.parametrize(
    ("pixels", "mode"), [(texture((4, 4)), "RGB"), (texture((4, 4), channels=4), "RGBA"), (texture((4, 4)), "LA")]
)
def test_masks_without_one_number_a_pixel_are_refused(tmp_path: Path, pixels: np.ndarray, mode: str):
    path = save(tmp_path / "colours.png", pixels, mode)
    with pytest.raises(ValueError, match=rf"one class id a pixel.*got mode {mode} in .*colours\.png"):
        read_mask(path)


def test_lossy_masks_are_refused(tmp_path: Path):
    rows, columns = np.ogrid[:32, :32]
    disc = (np.hypot(rows - 16, columns - 16) < 10).astype(np.uint8) * 255
    path = save(tmp_path / "disc.jpg", disc)
    with pytest.raises(ValueError, match=r"without loss, got JPEG with \d\d distinct values in .*disc\.jpg"):
        read_mask(path)


@pytest.mark.parametrize("mode", ["L", "RGB", "RGBA", "P", "CMYK", "LA", "1"])
@pytest.mark.parametrize("channels", [1, 3])
def test_images_of_all_modes_have_the_asked_channels(tmp_path: Path, mode: str, channels: int):
    pixels = np.full((5, 7, 3), 255, np.uint8)
    image = read_image(save(tmp_path / "image.tif", pixels, mode), channels)
    assert image.shape == (5, 7, channels)
    assert image.dtype == np.uint8
    assert (image >= 254).all()


def test_red_stays_first(tmp_path: Path):
    pixels = np.zeros((2, 3, 4), np.uint8)
    pixels[..., 0], pixels[..., 3] = 200, 128
    assert read_image(save(tmp_path / "image.png", pixels), 3)[0, 0].tolist() == [200, 0, 0]


@pytest.mark.parametrize("name", ["phone.jpg", "phone.png", "phone.tif", "phone.webp"])
def test_images_are_turned_upright_as_their_tag_says(tmp_path: Path, name: str):
    exif = Image.Exif()
    exif[0x0112] = 6
    path = save(tmp_path / name, np.zeros((40, 60, 3), np.uint8), exif=exif)
    assert read_image(path, 3).shape == (60, 40, 3)
    assert image_size(path) == (60, 40)


def test_size_is_read_from_the_head_alone(tmp_path: Path):
    path = save(tmp_path / "image.png", texture((30, 50)))
    path.write_bytes(path.read_bytes()[:100])
    assert image_size(path) == (30, 50)


@pytest.mark.parametrize("name", ["cut.jpg", "cut.png"])
def test_cut_files_are_named(tmp_path: Path, name: str):
    path = save(tmp_path / name, texture((64, 64)))
    path.write_bytes(path.read_bytes()[: path.stat().st_size * 6 // 10])
    with pytest.raises(ValueError, match=rf"{path} cannot be read as an image"):
        read_image(path, 3)


def test_files_that_are_no_images_are_named(tmp_path: Path):
    path = tmp_path / "text.png"
    path.write_text("no image")
    for read in (read_image, read_mask, image_size):
        with pytest.raises(ValueError, match=r"text\.png cannot be read as an image"):
            read(path)
    with pytest.raises(FileNotFoundError, match=r"absent\.png"):
        read_image(tmp_path / "absent.png")


def test_images_of_16_bits_are_refused_instead_of_clipped(tmp_path: Path):
    path = save(tmp_path / "deep.png", np.full((3, 3), 4000, np.uint16))
    with pytest.raises(ValueError, match=r"8 bits a channel, got mode I;16\S* in .*deep\.png"):
        read_image(path, 1)


def test_only_grey_and_colour_can_be_asked_for(tmp_path: Path):
    with pytest.raises(ValueError, match="channels must be 1 or 3, got 4"):
        read_image(save(tmp_path / "image.png", texture((3, 3))), 4)


def test_too_large_images_are_named_with_the_setting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = save(tmp_path / "large.png", texture((64, 64)))
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 1000)
    with pytest.raises(ValueError, match=r"large\.png is larger.*4096 pixels.*MAX_IMAGE_PIXELS"):
        read_image(path, 3)
