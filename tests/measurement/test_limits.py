import pytest

from src.measurement.limits import LIMITS, PEERS, Limit, Verdict, verdicts

FASTER = Limit("tiny", "label_map", "exact", 1.4, 1.8)
LEANER = Limit("tiny", "training_memory", "exact", 0.6, 0.4, at_least=False)


@pytest.mark.parametrize(
    ("limit", "ratio", "word"),
    [
        (FASTER, 1.39, "missed"), (FASTER, 1.4, "held"), (FASTER, 1.8, "goal reached"), (FASTER, None, "not measured"),
        (LEANER, 0.61, "missed"), (LEANER, 0.6, "held"), (LEANER, 0.4, "goal reached"),
        (LEANER, float("nan"), "missed"),
    ],
)  # fmt: skip
def test_a_ratio_is_missed_held_or_as_good_as_the_goal(limit, ratio, word):
    verdict = Verdict(limit, ratio)
    assert verdict.to_dict()["verdict"] == word
    assert verdict.holds == (word in ("held", "goal reached"))


@pytest.mark.parametrize("better", [0, 1])
def test_the_peer_that_does_better_counts(better):
    faster, leaner = ([{"median": value} for value in values] for values in ((1.5, 9.0), (0.5, 0.2)))
    order = (PEERS[better], PEERS[1 - better])
    rows = {
        "label_map": {
            "ratios": {"ours, exact": dict(zip(order, faster, strict=True)), "ours, fast": {PEERS[0]: faster[1]}}
        },
        "training_memory": {"ratios": {"ours, exact": dict(zip(order, leaner, strict=True))}},
    }
    told = verdicts({"tiny": {"rows": rows}})
    found = {(verdict.limit.model, verdict.limit.row, verdict.limit.ours): verdict.ratio for verdict in told}
    assert found["tiny", "label_map", "ours, exact"] == 1.5
    assert found["tiny", "training_memory", "ours, exact"] == 0.5
    assert found["tiny", "label_map", "ours, fast"] is None  # not measured against both
    assert found["small", "label_map", "ours, fast"] is None


def test_every_goal_is_better_than_its_limit():
    assert len(LIMITS) == 10
    for limit in LIMITS:
        assert limit.holds(limit.goal)
        assert not limit.reaches(limit.limit)
