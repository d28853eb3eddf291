import pytest

from src.measurement.limits import LIMITS, PEER, Limit, Verdict, verdicts

FASTER = Limit("tiny", "label_map", "ours, exact", 1.4, 1.8)
LEANER = Limit("tiny", "training_memory", "ours, exact", 0.6, 0.4, at_least=False)


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


def test_the_median_against_the_tuned_peer_counts():
    ratios = {"ours, exact": {PEER: {"median": 1.5}, "transformers": {"median": 9.0}}}
    told = verdicts({"tiny": {"rows": {"label_map": {"ratios": ratios}}}})
    found = {(verdict.limit.model, verdict.limit.row, verdict.limit.ours): verdict.ratio for verdict in told}
    assert found["tiny", "label_map", "ours, exact"] == 1.5
    assert found["tiny", "label_map", "ours, fast"] is None
    assert found["small", "label_map", "ours, fast"] is None


def test_every_goal_is_better_than_its_limit():
    assert len(LIMITS) == 10
    for limit in LIMITS:
        assert limit.holds(limit.goal)
        assert not limit.reaches(limit.limit)
