import numpy as np
import pytest

from src.data.sample_pictures import BALL, BUSH, CLASSES, FENCE, draw_picture


@pytest.fixture(scope="module")
def pictures() -> list[tuple[np.ndarray, np.ndarray]]:
    return [draw_picture(2021, index) for index in range(12)]


def test_pictures_follow_from_seed_and_index(pictures: list):
    again, other_index, other_seed = draw_picture(2021, 3), draw_picture(2021, 4), draw_picture(2022, 3)
    assert np.array_equal(again[0], pictures[3][0])
    assert np.array_equal(again[1], pictures[3][1])
    assert not np.array_equal(other_index[0], again[0])
    assert not np.array_equal(other_seed[0], again[0])


def test_every_class_is_in_most_pictures(pictures: list):
    for class_id in CLASSES.ids:
        assert sum((mask == class_id).any() for _, mask in pictures) >= 9
    assert any((mask == 0).any() for _, mask in pictures)


def test_fences_are_a_few_pixels_thin(pictures: list):
    for _, mask in pictures:
        fence = np.pad(mask == FENCE, 2)
        inner = np.lib.stride_tricks.sliding_window_view(fence, (5, 5)).all((-1, -2))
        assert not inner.any()


def test_nearer_things_hide_farther_ones(pictures: list):
    neighbours = set()
    for _, mask in pictures:
        neighbours |= set(zip(mask[:, :-1].ravel().tolist(), mask[:, 1:].ravel().tolist(), strict=True))
    assert {(BUSH, FENCE), (FENCE, BUSH)} <= neighbours
    assert len({pair for pair in neighbours if BALL in pair}) > 8
