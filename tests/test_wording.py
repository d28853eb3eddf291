import pytest

from src.wording import listed, nearest


@pytest.mark.parametrize(("count", "text"), [(0, ""), (1, "0"), (5, "0, 1, 2, 3, 4"), (7, "0, 1, 2, 3, 4 and 2 more")])
def test_long_lists_are_cut(count, text):
    assert listed(range(count)) == text


def test_fewer_may_be_shown():
    assert listed("abcd", 2) == "a, b and 2 more"


def test_an_unknown_word_is_answered_with_the_nearest_or_with_what_there_is():
    assert nearest("clas 1", ["sky", "class 1"]) == "the nearest is `class 1`"
    assert nearest("x", {"sky": 0, "road": 1}) == "there are sky, road"
