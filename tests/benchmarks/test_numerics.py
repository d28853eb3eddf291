import re

import pytest

from benchmarks.numerics import convolution, upsampled


@pytest.mark.parametrize("of", ["result", "maps", "weight"])
def test_errors_are_measured_and_differ_between_methods(of):
    found = [convolution(64, method, of) for method in ("direct", "fast")]
    for line in found:
        largest, mean = (float(value) for value in re.fullmatch(r"(\S+) / (\S+)", line).groups())
        assert 0 < mean < largest < 1e-5
    assert found[0] != found[1]


def test_upsampled_maps_are_convolved_more_exactly_than_in_the_plain_way():
    ours, plain = (float(upsampled(way).split(" / ")[1]) for way in (True, False))
    assert 0 < ours < plain
