import numpy as np
import pytest
import torch

from src.layers.position_bias.geometric import geometric_places, geometric_resize


def published_places(count, new_count):
    """The loop of the published code."""
    left, right = 1.01, 1.5
    while right - left > 1e-6:
        q = (left + right) / 2.0
        if (1.0 - q ** (count // 2)) / (1.0 - q) > new_count // 2:
            right = q
        else:
            left = q
    places, place = [], 1.0
    for i in range(count // 2):
        places.append(place)
        place += q ** (i + 1)
    return [-place for place in reversed(places)] + [0.0] + places


@pytest.mark.parametrize(("count", "new_count"), [(13, 23), (23, 13), (13, 15), (5, 9), (13, 63)])
def test_places_are_those_of_the_published_code(count, new_count):
    assert geometric_places(count, new_count).numpy() == pytest.approx(published_places(count, new_count), abs=1e-4)


def test_the_nearest_places_stay_and_the_farthest_reach_the_new_edge():
    places = geometric_places(13, 23)
    assert places[6:8].tolist() == [0, 1]
    assert places[-1].item() == pytest.approx(11, abs=1e-4)
    steps = places[7:].diff()
    assert (steps[1:] / steps[:-1]).std() < 1e-9


@pytest.mark.parametrize("shape", [(13, 13), (7, 13), (13, 9)])
@pytest.mark.parametrize("size", [(23, 23), (15, 31), (5, 7)])
def test_values_are_those_of_the_interpolating_bicubic_spline(shape, size):
    interpolate = pytest.importorskip("scipy.interpolate")
    table = np.random.default_rng(0).normal(size=shape)
    y, x = (geometric_places(old, new).numpy() for old, new in zip(shape, size, strict=True))
    new_y, new_x = (np.arange(-(new // 2), new // 2 + 1) for new in size)
    # the published code's interp2d is FITPACK's spline, which keeps the edge value beyond the last place
    expected = interpolate.RectBivariateSpline(y, x, table, s=0)(new_y.clip(y[0], y[-1]), new_x.clip(x[0], x[-1]))
    assert geometric_resize(torch.tensor(table)[None], size)[0].numpy() == pytest.approx(expected, abs=1e-10)


def test_an_axis_that_keeps_its_size_keeps_its_values():
    table = torch.randn(2, 13, 13, dtype=torch.float64)
    resized = geometric_resize(table, (13, 23))
    assert torch.allclose(resized[:, :, 10:13], table[:, :, 5:8], atol=1e-5)
    assert torch.equal(geometric_resize(table, (13, 13)), table)


@pytest.mark.parametrize("size", [(1, 1), (3, 3), (5, 1)])
def test_tables_too_small_for_a_cubic_keep_their_range(size):
    table = torch.rand(1, *size)
    resized = geometric_resize(table, (9, 9))
    assert resized.shape == (1, 9, 9)
    assert resized[0, 4, 4] == pytest.approx(table[0, size[0] // 2, size[1] // 2].item())
    assert resized.min() >= table.min() - 0.5
    assert resized.max() <= table.max() + 0.5
