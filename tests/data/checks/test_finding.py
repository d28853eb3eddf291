import pytest

from src.data.checks.finding import Finding, percent, raise_errors


def test_errors_alone_are_raised():
    raise_errors([])
    raise_errors([Finding("warning", "a"), Finding("note", "b")])
    with pytest.raises(ValueError, match=r"^first\nsecond$"):
        raise_errors([Finding("error", "first"), Finding("warning", "a"), Finding("error", "second")])


@pytest.mark.parametrize(
    ("part", "whole", "text"),
    [(1, 4, "25 %"), (0, 4, "0 %"), (4, 4, "100 %"), (1, 10**6, "less than 0.1 %"), (10**6 - 1, 10**6, "99.9 %")],
)
def test_shares_are_never_rounded_to_all_or_nothing(part, whole, text):
    assert percent(part, whole) == text
