import pickle
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest
from drawn_files import drawn_pair, labels, mask_folders, save, texture
from PIL import Image

from src.classes import ClassList
from src.data import MaskFolder
from src.data.labels import LabelEncoder
from src.data.pairs import Pair
from src.data.source import Source
from src.image_io import read_image

ENCODER = LabelEncoder(ClassList.from_names(["field", "road"]))


def test_reads_and_encodes_a_mask(tmp_path: Path):
    found = drawn_pair(tmp_path, (6, 7))
    assert Source(encoder=ENCODER).labels(found, (6, 7)).tolist() == labels((6, 7), (0, 1)).tolist()


def test_a_reader_of_ones_own_is_used(tmp_path: Path):
    own = Source(read_mask=lambda path: np.ones((6, 7), int), encoder=ENCODER)
    assert own.labels(drawn_pair(tmp_path, (6, 7)), (6, 7)).tolist() == np.ones((6, 7)).tolist()


@pytest.mark.parametrize("source", [Source(), Source(encoder=ENCODER)])
def test_a_missing_mask_is_an_error(source: Source):
    with pytest.raises(ValueError, match=r"a\.png must have a mask"):
        source.labels(Pair("a.png", Path("a.png")), (2, 2))


def test_the_limit_of_pixels_reaches_both_readers_and_no_others(tmp_path: Path):
    found = drawn_pair(tmp_path, (6, 7))
    limited = pickle.loads(pickle.dumps(Source(encoder=ENCODER, max_image_pixels=41)))
    for read in (
        lambda: limited.read_image(found.image, 3),
        lambda: limited.labels(found, (6, 7)),
        lambda: limited.reduced_image(found, 3, lambda size: size),
    ):
        with pytest.raises(ValueError, match=r"larger than data\.max_image_pixels .*\(42 pixels\) exceeds limit of 41"):
            read()
    own = Source(lambda path, channels: np.ones((6, 7, channels)), lambda path: np.ones((6, 7), int), ENCODER, 41)
    assert own.read_image(found.image, 1).shape == (6, 7, 1)
    assert own.labels(found, (6, 7)).tolist() == np.ones((6, 7)).tolist()


@pytest.mark.parametrize("num_workers", [0, 1])
def test_the_limit_of_pixels_holds_in_every_loader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, num_workers: int):
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 1000)
    folders = mask_folders(tmp_path, [(64, 64)] * 2)
    for limit in (None, 4095, 4096):
        data = MaskFolder(**folders, num_workers=num_workers, crop_size=16, max_image_pixels=limit)
        predicted = [name for batch in data.predict_dataloader() for name in batch["names"]]
        assert len(predicted) == (limit == 4096)
        for loader in (data.train_dataloader(), data.val_dataloader()):
            if limit == 4096:
                assert len(list(loader)) == 1
                continue
            with pytest.raises(ValueError, match=r"0[01]\.png is larger than data\.max_image_pixels .*4096 pixels"):
                list(loader)


def test_a_limit_of_no_pixels_is_refused(tmp_path: Path):
    with pytest.raises(ValueError, match=r"data\.max_image_pixels must be at least 1, got 0"):
        MaskFolder(**mask_folders(tmp_path, [(4, 4)]), max_image_pixels=0)


def test_a_reduced_image_comes_with_its_full_size(tmp_path: Path):
    found = Pair("a.jpg", save(tmp_path / "a.jpg", texture((100, 60))))
    asked = []
    image, size = Source().reduced_image(found, 3, lambda full: asked.append(full) or (25, 15))
    assert asked == [size] == [(100, 60)]
    assert image.shape == (25, 15, 3)
    own = Source(read_image=lambda path, channels: read_image(path, channels)[:50])
    image, size = own.reduced_image(found, 3, lambda full: (5, 5))
    assert image.shape == (50, 60, 3)
    assert size == (50, 60)


@pytest.mark.parametrize(
    ("said", "fits"), [((100, 60), True), ((200, 120), True), ((60, 100), False), ((99, 60), False)]
)
def test_an_image_of_another_size_than_its_head_says_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: tuple[int, int], fits: bool
):
    found = Pair("a.png", save(tmp_path / "a.png", texture((100, 60))))
    monkeypatch.setattr("src.data.source.image_size", lambda path, max_pixels: said)
    with nullcontext() if fits else pytest.raises(ValueError, match=rf"{found.image} .* 100x60 in place of {said[0]}x"):
        assert Source().reduced_image(found, 3, lambda full: full)[1] == said
