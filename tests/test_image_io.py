import struct
import warnings
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from drawn_files import save, texture
from PIL import Image, ImageFile

from src.image_io import image_size, picture_pixels, read_image, read_mask


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


UPRIGHT: dict[int, Callable[[np.ndarray], np.ndarray]] = {
    1: lambda stored: stored,
    2: lambda stored: stored[:, ::-1],
    3: lambda stored: stored[::-1, ::-1],
    4: lambda stored: stored[::-1],
    5: lambda stored: stored.swapaxes(0, 1),
    6: lambda stored: stored.swapaxes(0, 1)[:, ::-1],
    7: lambda stored: stored[::-1, ::-1].swapaxes(0, 1),
    8: lambda stored: stored.swapaxes(0, 1)[::-1],
}


@pytest.mark.parametrize(("mode", "channels"), [("RGB", 3), ("L", 1), ("RGB", 1), ("P", 3)])
@pytest.mark.parametrize("orientation", [None, 1, 6, 99])
def test_a_picture_is_left_as_it_is(mode: str, channels: int, orientation: int | None):
    picture = Image.fromarray(texture((4, 6))).convert(mode)
    picture.info["transparency"] = 3
    if orientation is not None:
        picture.getexif()[0x0112] = orientation
    before = picture.copy()
    expected = np.asarray(before.convert("RGB" if channels == 3 else "L")).reshape(4, 6, channels)
    pixels = picture_pixels(picture, channels)
    assert np.array_equal(pixels, UPRIGHT.get(orientation or 1, UPRIGHT[1])(expected))
    assert picture.size == (6, 4)
    assert picture.info == before.info
    assert picture.tobytes() == before.tobytes()


def turned(orientation: int) -> Image.Exif:
    exif = Image.Exif()
    exif[0x0112] = orientation
    return exif


@pytest.mark.parametrize("orientation", UPRIGHT)
@pytest.mark.parametrize("name", ["phone.jpg", "phone.png", "phone.tif", "phone.webp"])
def test_images_are_turned_upright_as_their_tag_says(tmp_path: Path, name: str, orientation: int):
    stored = np.kron(texture((2, 3), orientation), np.ones((16, 16, 1), np.uint8))
    path = save(tmp_path / name, stored, exif=turned(orientation), quality=95)
    expected = UPRIGHT[orientation](stored)
    image = read_image(path, 3)
    assert image.shape == expected.shape
    assert np.abs(image[8::16, 8::16].astype(int) - expected[8::16, 8::16]).max() < 40
    assert image_size(path) == expected.shape[:2]


@pytest.mark.parametrize("orientation", UPRIGHT)
@pytest.mark.parametrize("kind", ["L", "P", "1", "I;16", "RGB"])
def test_masks_are_turned_like_their_images(tmp_path: Path, kind: str, orientation: int):
    ids = texture((4, 6), channels=1) % 2
    path = tmp_path / "mask.png"
    stored = {"1": ids.astype(bool), "I;16": ids.astype(np.uint16), "RGB": np.stack([ids] * 3, axis=2)}.get(kind, ids)
    if kind == "P":
        save_palette(path, ids, exif=turned(orientation))
    else:
        save(path, stored, exif=turned(orientation))
    assert read_mask(path).tolist() == UPRIGHT[orientation](ids).tolist()


@pytest.mark.parametrize("orientation", UPRIGHT)
@pytest.mark.parametrize("kind", ["L", "P", "I;16", "RGBA"])
def test_plain_tiffs_are_turned_without_being_scrambled(tmp_path: Path, kind: str, orientation: int):
    ids = texture((5, 9), channels=1)
    stored = {"I;16": ids.astype(np.uint16), "RGBA": np.stack([ids] * 4, axis=2)}.get(kind, ids)
    path = tmp_path / "mask.tif"
    if kind == "P":
        save_palette(path, ids, exif=turned(orientation))
    else:
        save(path, stored, exif=turned(orientation))
    upright = UPRIGHT[orientation](ids)
    assert image_size(path) == upright.shape
    if kind != "RGBA":
        assert np.array_equal(read_mask(path), upright)
    if kind in ("L", "RGBA"):
        assert np.array_equal(read_image(path, 3)[..., 0], upright)


def test_a_damaged_tag_does_not_stop_a_good_picture(tmp_path: Path):
    for exif in (b"Exif\0\0nonsense", b"Exif\0\0II*\0\xff\xff\xff\xff", b""):
        path = save(tmp_path / "image.jpg", texture((20, 30)), exif=exif)
        assert read_image(path).shape == (20, 30, 3)
        assert image_size(path) == (20, 30)


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


def test_images_of_16_bits_are_refused_instead_of_clipped(tmp_path: Path):
    path = save(tmp_path / "deep.png", np.full((3, 3), 4000, np.uint16))
    with pytest.raises(ValueError, match=r"8 bits a channel, got mode I;16\S* in .*deep\.png"):
        read_image(path, 1)


def test_transparency_in_a_palette_is_dropped(tmp_path: Path):
    path = save_palette(tmp_path / "image.png", np.arange(4).reshape(2, 2), transparency=bytes([0, 128, 255, 7]))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert read_image(path).tolist() == [[[0, 0, 0], [255, 0, 0]], [[0, 255, 0], [0, 0, 255]]]


def test_inks_become_colours(tmp_path: Path):
    """Programs of Adobe store the four inks inverted and say so in a marker."""
    inks = np.zeros((16, 16, 4), np.uint8)
    inks[..., 1] = inks[..., 2] = 255  # magenta and yellow are red
    path = tmp_path / "print.jpg"
    Image.fromarray(inks, "CMYK").save(path, quality=95)
    assert b"Adobe" in path.read_bytes()
    red, green, blue = read_image(path)[8, 8]
    assert red > 240
    assert max(green, blue) < 16


def test_the_content_decides_and_not_the_suffix(tmp_path: Path):
    pixels = texture((5, 6))
    assert np.array_equal(read_image(save(tmp_path / "png.JPG", pixels, format="png")), pixels)
    with pytest.raises(ValueError, match=r"without loss, got JPEG .*jpg\.png"):
        read_mask(save(tmp_path / "jpg.png", pixels, format="jpeg"))


@pytest.mark.parametrize("name", ["moving.gif", "moving.png", "moving.webp"])
def test_of_an_animation_the_first_picture_is_read(tmp_path: Path, name: str):
    first, second = (Image.new("RGB", (6, 5), colour) for colour in ("red", "blue"))
    first.save(tmp_path / name, save_all=True, append_images=[second])
    assert (read_image(tmp_path / name)[..., 0] > 240).all()


@pytest.mark.parametrize("read", [read_image, read_mask, image_size])
def test_stacks_are_refused_and_smaller_copies_passed_over(tmp_path: Path, read: Callable):
    picture, preview = Image.new("L", (6, 5), 3), Image.new("L", (3, 2), 1)
    picture.save(tmp_path / "preview.tif", save_all=True, append_images=[preview])
    result = np.asarray(read(tmp_path / "preview.tif"))
    assert result.tolist() == [5, 6] or (result.shape[:2] == (5, 6) and (result == 3).all())
    picture.save(tmp_path / "stack.tif", save_all=True, append_images=[picture, picture])
    with pytest.raises(ValueError, match=r"stack\.tif .*stack of pages of one size; save each page as a file"):
        read(tmp_path / "stack.tif")


def test_damaged_files_are_always_named(tmp_path: Path):
    rng = np.random.default_rng(0)
    outcomes = {"read": 0, "refused": 0}
    for name in ("a.jpg", "a.png", "a.gif", "a.bmp", "a.ppm", "a.webp"):
        whole = save(tmp_path / name, texture((20, 30))).read_bytes()
        for _ in range(60):
            damaged = bytearray(whole)
            for place in rng.integers(0, 60, 2):
                damaged[place] = rng.integers(256)
            (tmp_path / name).write_bytes(damaged)
            try:
                read_image(tmp_path / name, max_pixels=10**6)
                outcomes["read"] += 1
            except ValueError as error:
                outcomes["refused"] += 1
                assert str(tmp_path / name) in str(error)
    assert min(outcomes.values()) > 20


@pytest.mark.parametrize("error", [KeyError(273), IndexError(), ZeroDivisionError("zero"), AttributeError("_mode")])
def test_whatever_a_decoder_raises_names_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception):
    def fail(image: Image.Image) -> None:
        raise error

    path = save(tmp_path / "odd.png", texture((3, 4)))
    monkeypatch.setattr(ImageFile.ImageFile, "load", fail)
    for read in (read_image, read_mask):
        with pytest.raises(ValueError, match=rf"odd\.png cannot be read as an image \({type(error).__name__}\("):
            read(path)


def test_too_little_memory_is_not_the_fault_of_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def fail(image: Image.Image) -> None:
        raise MemoryError

    path = save(tmp_path / "large.png", texture((3, 4)))
    monkeypatch.setattr(ImageFile.ImageFile, "load", fail)
    with pytest.raises(MemoryError):
        read_image(path)


@pytest.mark.parametrize("read", [read_image, read_mask, image_size])
def test_absent_and_empty_files_are_named(tmp_path: Path, read: Callable):
    with pytest.raises(FileNotFoundError, match=r"absent\.png does not exist"):
        read(tmp_path / "absent.png")
    (tmp_path / "empty.png").write_bytes(b"")
    with pytest.raises(ValueError, match=r"empty\.png cannot be read"):
        read(tmp_path / "empty.png")
    (tmp_path / "folder.png").mkdir()
    with pytest.raises(ValueError, match=r"folder\.png must be an image file, got a folder"):
        read(tmp_path / "folder.png")


def test_only_grey_and_colour_can_be_asked_for(tmp_path: Path):
    with pytest.raises(ValueError, match="channels must be 1 or 3, got 4"):
        read_image(save(tmp_path / "image.png", texture((3, 3))), 4)
