from types import SimpleNamespace

import pytest

from src.data.first_process import from_first


class Processes:
    """Two processes of which the first speaks and the second hears."""

    def __init__(self) -> None:
        self.said = None

    def broadcast(self, value):
        self.said = self.said if value is None else value
        return self.said


def trainers() -> list[SimpleNamespace]:
    processes = Processes()
    return [SimpleNamespace(strategy=processes, is_global_zero=first) for first in (True, False)]


def test_the_first_decides_and_the_others_are_not_asked():
    asked = []
    first, second = trainers()
    assert from_first(first, lambda: asked.append("first") or 7) == 7
    assert from_first(second, lambda: asked.append("second") or 8) == 7
    assert asked == ["first"]
    assert from_first(None, lambda: 9) == 9


def test_an_error_of_the_first_is_everyones():
    first, second = trainers()
    for trainer in (first, second):
        with pytest.raises(RuntimeError, match="a loop of links"):
            from_first(trainer, failing)


def failing() -> None:
    raise RuntimeError("a loop of links")
