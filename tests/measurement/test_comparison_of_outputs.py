import pytest
import torch

from src.measurement.comparison import compared, relative_difference, same_labels, tolerance


def test_a_difference_is_relative_to_the_largest_number():
    theirs = torch.tensor([0.0, -8.0, 4.0])
    assert relative_difference(theirs + torch.tensor([0.0, 0.0, 2.0]), theirs) == pytest.approx(0.25)
    assert relative_difference(torch.zeros(3), torch.zeros(3)) == 0


def test_a_number_that_is_none_is_no_small_difference():
    difference = relative_difference(torch.tensor([float("nan")]), torch.ones(1))
    assert not difference <= 1


def test_shapes_must_agree():
    with pytest.raises(ValueError, match=r"outputs must be of one shape, got \(2,\) and \(3,\)"):
        relative_difference(torch.zeros(2), torch.zeros(3))


def test_labels_are_counted():
    assert same_labels(torch.tensor([1, 2, 3, 4]), torch.tensor([1, 2, 3, 0])) == 0.75


def test_scores_and_labels_are_compared_each_in_its_way():
    results = {"ours": torch.tensor([1.0]), "theirs": torch.tensor([2.0])}
    assert compared("logits", results, ["ours"], ["theirs"]) == {
        "ours": {"theirs": {"row": "logits", "kind": "relative difference", "value": 0.5}}
    }
    labels = {"ours": torch.tensor([1]), "theirs": torch.tensor([1])}
    assert compared("label_map", labels, ["ours"], ["theirs"])["ours"]["theirs"]["kind"] == "same labels"


def test_fast_numerics_and_half_precision_may_differ_by_more():
    assert tolerance("ours, exact", "float32") == 1e-5
    assert tolerance("ours, fast", "float32") > 1e-5
    assert tolerance("ours, exact", "bfloat16") > tolerance("ours, exact", "float16") > 1e-5
