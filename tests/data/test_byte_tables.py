import cv2
import numpy as np
import pytest
from drawn_files import texture

from src.data import byte_tables
from src.data.byte_tables import counts, linear_table, looked_up, looked_up_in_hsv


@pytest.mark.parametrize(("factor", "offset"), [(1, 0), (0.5, 0), (1.5, 0), (1, -31.7), (1, 32), (0, 3), (300, -5)])
def test_a_linear_table_cuts_off_and_rounds_down(factor: float, offset: float):
    expected = []
    for value in range(256):
        changed = np.float32(value) * np.float32(factor) + np.float32(offset)
        expected.append(int(min(max(changed, 0), 255)))
    table = linear_table(factor, offset)
    assert table.dtype == np.uint8
    assert table.tolist() == expected


SHAPES = [(1, 1), (7, 5), (7, 5, 1), (7, 5, 3), (4, 6, 5), (13,), (1, 31, 4), (0, 4)]


@pytest.mark.parametrize("shape", SHAPES)
def test_tables_follow_one_another_in_one_pass(shape: tuple[int, ...]):
    random = np.random.default_rng(0)
    pixels = random.integers(0, 256, shape, dtype=np.uint8)
    tables = [random.permutation(256).astype(np.uint8) for _ in range(3)]
    for used in range(4):
        expected = pixels
        for table in tables[:used]:
            expected = table[expected]
        assert np.array_equal(looked_up(pixels, tables[:used]), expected)
        assert looked_up(pixels, tables[:used]).shape == shape


@pytest.mark.parametrize("view", [np.s_[2:6, 1:5], np.s_[::-1], np.s_[:, ::-1], np.s_[::2, ::3]])
def test_views_are_looked_up_too_and_stay_as_they_are(view: object):
    pixels = texture((9, 11))
    before, table = pixels.copy(), np.arange(255, -1, -1, dtype=np.uint8)
    assert np.array_equal(looked_up(pixels[view], [table]), 255 - before[view])
    assert np.array_equal(pixels, before)


@pytest.mark.parametrize("channel", [0, 1, 2])
def test_one_channel_of_hsv_is_changed_and_no_other(channel: int):
    pixels = texture((6, 7))
    table = ((np.arange(256) + 40) % 180).astype(np.uint8)
    hsv = cv2.cvtColor(pixels, cv2.COLOR_RGB2HSV)
    hsv[:, :, channel] = table[hsv[:, :, channel]]
    assert np.array_equal(looked_up_in_hsv(pixels, channel, table), cv2.cvtColor(hsv, cv2.COLOR_HSV2RGB))


@pytest.mark.parametrize("exact", [2**24, 10, 1])
@pytest.mark.parametrize("shape", [(1, 1), (5, 7), (1, 33), (0, 3)])
def test_values_are_counted_whichever_way(shape: tuple[int, int], exact: int, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(byte_tables, "_EXACT", exact)
    pixels = np.random.default_rng(0).integers(0, 256, (9, 40), dtype=np.uint8)[: shape[0], 2 : 2 + shape[1]]
    found = counts(pixels)
    assert found.shape == (256,)
    assert np.issubdtype(found.dtype, np.integer)
    assert found.tolist() == [int((pixels == value).sum()) for value in range(256)]
