import pytest

from src.measurement.rounds import Rounds, Spread, alternate, table_row


class Clock:
    """Each worker takes the seconds that are planted for it."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


def test_workers_take_turns_and_the_first_round_is_not_timed():
    clock = Clock()
    planted = {"ours": iter([90.0, 1.0, 2.0, 4.0]), "theirs": iter([90.0, 3.0, 4.0, 10.0])}

    def worker(name):
        def work():
            clock.now += next(planted[name])
            return name.upper()

        return work

    done = alternate({name: worker(name) for name in planted}, rounds=3, clock=clock)
    assert done.order == ["ours", "theirs"] * 4
    assert done.seconds == {"ours": [1.0, 2.0, 4.0], "theirs": [3.0, 4.0, 10.0]}
    assert done.results == {"ours": "OURS", "theirs": "THEIRS"}
    assert done.ratio("theirs", "ours").values == (3.0, 2.0, 2.5)


def test_a_device_is_waited_for_before_and_after_each_turn():
    waits = []
    alternate({"a": lambda: waits.append("work")}, rounds=1, synchronise=lambda: waits.append("wait"))
    assert waits == ["wait", "work", "wait"] * 2


def test_a_row_has_the_median_of_the_ratios_not_the_ratio_of_the_medians():
    done = Rounds({"ours": [1.0, 2.0, 4.0], "theirs": [3.0, 4.0, 10.0]}, ["ours", "theirs"])
    row = table_row(done, ["ours"])
    assert row["unit"] == "s"
    assert row["figures"]["theirs"] == {"median": 4.0, "min": 3.0, "max": 10.0, "values": [3.0, 4.0, 10.0]}
    assert row["ratios"] == {"ours": {"theirs": {"median": 2.5, "min": 2.0, "max": 3.0, "values": [3.0, 2.0, 2.5]}}}
    assert row["order"] == ["ours", "theirs"]


def test_each_of_ours_is_compared_and_ours_alone_has_no_ratio():
    done = Rounds({"exact": [2.0], "fast": [1.0], "theirs": [4.0]})
    ratios = table_row(done, ["exact", "fast"])["ratios"]
    assert {name: ratio["theirs"]["median"] for name, ratio in ratios.items()} == {"exact": 2.0, "fast": 4.0}
    assert table_row(Rounds({"ours": [1.0]}), ["ours"])["ratios"] == {"ours": {}}


def test_a_spread_of_an_even_number_lies_between_the_middle_ones():
    assert Spread((4.0, 1.0, 3.0, 2.0)).median == pytest.approx(2.5)
