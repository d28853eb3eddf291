from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from drawn_files import drawn_pair, labels, save, texture

from src.classes import ClassList
from src.data import Pair
from src.data.checks.scan import scan_masks, spread
from src.data.labels import LabelEncoder
from src.data.source import Source

ENCODER = LabelEncoder(ClassList.from_names(["sky", "road"]))


def named(count: int, source: int = 0) -> list[Pair]:
    return [Pair(f"{source}/{index}", Path(f"{source}/{index}"), source=source) for index in range(count)]


def scanned(pairs: list[Pair], source: Source, limit: int | None = 64, seconds: float = 60):
    return scan_masks("training", pairs, [source], 3, limit, seconds)


def test_a_sample_is_spread_over_the_set_and_always_the_same():
    chosen = spread(named(1000), 10)
    indices = sorted(int(Path(pair.name).name) for pair in chosen)
    assert indices[0] == 0
    assert indices[-1] == 999
    assert np.diff(indices).tolist() == [111] * 9
    assert chosen == spread(named(1000), 10)
    assert [pair.name for pair in chosen] != sorted(pair.name for pair in chosen)


def test_every_data_set_of_a_run_is_looked_at():
    pairs = named(1000) + named(5, source=1) + named(300, source=2)
    assert Counter(pair.source for pair in spread(pairs, 30)) == {0: 10, 1: 5, 2: 10}
    assert Counter(pair.source for pair in spread(pairs, 1)) == {0: 1, 1: 1, 2: 1}


@pytest.mark.parametrize("count", [0, 1, 10])
def test_a_small_set_is_looked_at_whole(count):
    assert spread(named(count), 10) == named(count)


def test_no_more_masks_are_read_when_time_is_up(tmp_path: Path):
    pair = drawn_pair(tmp_path, (4, 4))
    scan = scanned([pair] * 50, Source(encoder=ENCODER), seconds=0)
    assert (len(scan.masks), scan.complete) == (8, False)
    assert scan.looked_at == "the 8 of 50 training masks looked at"
    assert scanned([pair] * 50, Source(encoder=ENCODER)).complete
    for count in (2, 8):  # however slow the machine is
        assert scanned([pair] * count, Source(encoder=ENCODER), seconds=0).complete


def test_masks_are_counted_as_they_are_stored(tmp_path: Path):
    pair = drawn_pair(tmp_path, (4, 6))
    for dtype in (np.uint8, np.uint16):
        save(pair.mask, np.array([[7, 7, 200, 0, 0, 0]] * 4, dtype))
        assert scanned([pair], Source(encoder=ENCODER)).masks[0].pixels == {0: 12, 7: 8, 200: 4}


@pytest.mark.parametrize("kind", [bool, np.int64])
def test_readers_of_ones_own_are_used(kind: type):
    def read_image(path: Path, channels: int) -> np.ndarray:
        return texture((3, 5), channels=channels)

    source = Source(read_image, lambda path: np.eye(3, 5).astype(kind), ENCODER)
    pair = Pair("a", Path("nowhere/a.raw"), Path("nowhere/a.npz"))
    assert scanned([pair], source).masks[0].pixels == {0: 12, 1: 3}


def test_a_mask_that_is_not_whole_numbers_is_a_problem(tmp_path: Path):
    pair = drawn_pair(tmp_path, (3, 5))
    (facts,) = scanned([pair], Source(read_mask=lambda path: np.eye(3, 5), encoder=ENCODER)).masks
    assert "mask must hold whole numbers, got float64" in facts.problem


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (KeyError, "KeyError('gone') while reading"),
        (RuntimeError, "RuntimeError('gone') while reading"),
        (ValueError, "gone while reading"),
        (OSError, "gone while reading"),
    ],
)
@pytest.mark.parametrize("reader", ["read_image", "read_mask"])
def test_whatever_a_reader_raises_is_a_problem_that_names_the_files(tmp_path: Path, reader, error, told):
    def read(*arguments: object) -> np.ndarray:
        raise error("gone")

    pair = drawn_pair(tmp_path, (3, 5))
    problems = [facts.problem for facts in scanned([pair], Source(**{reader: read}, encoder=ENCODER)).masks]
    assert problems == [f"{told} {pair.image} and {pair.mask}"]


@pytest.mark.parametrize("pixels", [np.zeros((3, 5, 3), np.float32), np.zeros((3, 5), np.uint8)], ids=["kind", "shape"])
def test_a_reader_of_other_pixels_than_training_takes_is_a_problem(tmp_path: Path, pixels: np.ndarray):
    pair = drawn_pair(tmp_path, (3, 5))
    (facts,) = scanned([pair], Source(read_image=lambda path, channels: pixels, encoder=ENCODER)).masks
    assert "image must be (H, W, 3) of uint8, got" in facts.problem
    assert str(pair.image) in facts.problem


def test_a_reader_that_gives_nothing_is_a_problem(tmp_path: Path):
    pair = drawn_pair(tmp_path, (3, 5))
    (facts,) = scanned([pair], Source(read_mask=lambda path: None, encoder=ENCODER)).masks
    assert "'NoneType' object" in facts.problem
    assert str(pair.mask) in facts.problem


def test_too_little_memory_is_not_the_fault_of_a_file(tmp_path: Path):
    def read_mask(path: Path) -> np.ndarray:
        raise MemoryError

    with pytest.raises(MemoryError):
        scanned([drawn_pair(tmp_path, (3, 5))], Source(read_mask=read_mask, encoder=ENCODER))


def test_images_are_decoded_in_full_only(tmp_path: Path):
    pair = drawn_pair(tmp_path, (40, 40))
    pair.image.write_bytes(pair.image.read_bytes()[:-200])
    assert scanned([pair], Source(encoder=ENCODER)).masks[0].problem is None
    assert "image.png" in scanned([pair], Source(encoder=ENCODER), limit=None).masks[0].problem


def test_the_limit_of_pixels_is_that_of_the_source(tmp_path: Path):
    pair = drawn_pair(tmp_path, (40, 40))
    assert scanned([pair], Source(encoder=ENCODER, max_image_pixels=1600)).masks[0].problem is None
    assert "image.png" in scanned([pair], Source(encoder=ENCODER, max_image_pixels=1599)).masks[0].problem


def test_a_mask_of_another_size_than_its_image_is_a_problem(tmp_path: Path):
    pair = drawn_pair(tmp_path, (4, 4))
    save(pair.mask, labels((4, 5), (0, 1)))
    assert "must have the size of its image" in scanned([pair], Source(encoder=ENCODER)).masks[0].problem
