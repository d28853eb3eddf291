import numpy as np
import pytest
from drawn_files import labels

from src.data.checks.run import FAST_MASKS


def of(found, severity, split="training"):
    return [finding.message for finding in found if finding.severity == severity and split in finding.message]


def test_masks_of_0_and_255_do_not_train_in_silence(drawn, findings):
    mask = np.repeat(np.array([[0], [0], [0], [255]], np.uint8), 4, 1)
    masks = [mask] * 4
    (message,) = of(findings(drawn(masks, "background\ncell\n")), "error")
    assert "no class but background occurs in the 4 training masks" in message
    assert "cell never occurs" in message
    assert "255 (25 % of pixels) is being ignored" in message
    assert '--data.mapping "{255: 1}"' in message
    assert findings(drawn(masks, "background\ncell\n", mapping={255: 1})) == []


@pytest.mark.parametrize("values", [(0, 255), (0, 1, 255)])
def test_masks_that_are_scored_without_their_mapping_are_told(drawn, scored_findings, values):
    masks = [labels((8, 8), values)] * 4
    classes = "background\ncell\nedge\n"[: 16 if len(values) == 2 else None]
    (message,) = of(scored_findings(drawn(masks, classes)), "warning", "scored")
    missing = "cell" if len(values) == 2 else "edge"
    assert f"if it stands for {missing}, give --data.mapping" in message
    assert scored_findings(drawn(masks, classes, mapping={255: missing})) == []


def test_a_class_that_is_absent_from_what_is_scored_is_no_finding(drawn, scored_findings):
    assert scored_findings(drawn([labels((8, 8), (0, 1))] * 4, "sky\nroad\ncar\n")) == []


def test_masks_of_0_and_255_that_are_reduced_too_have_a_remedy_that_mends_them(drawn, findings):
    masks = [labels((8, 8), (0, 255))] * 4
    (message,) = of(findings(drawn(masks, "background\ncell\n", reduce_zero_label=True)), "error")
    assert "if it stands for cell, give --data.reduce_zero_label false --data.mapping " in message
    assert '--data.mapping "{255: 1}"' in message
    assert findings(drawn(masks, "background\ncell\n", mapping={255: 1})) == []


@pytest.mark.parametrize("ids", [(0, 1), (0, 1, 255)])
def test_a_zero_label_that_is_a_class_is_not_reduced_in_silence(drawn, findings, ids):
    masks = [labels((8, 8), ids)] * 3
    (message,) = of(findings(drawn(masks, reduce_zero_label=True)), "error")
    assert "no class but sky occurs" in message
    assert "road never occurs" in message
    assert "set --data.reduce_zero_label false" in message
    assert findings(drawn(masks)) == []


@pytest.mark.parametrize("count", [3, FAST_MASKS + 6])
def test_a_zero_label_among_several_classes_is_told_from_a_sample_too(drawn, findings, count):
    masks = [labels((8, 8), (0, 1, 2, 3), seed) for seed in range(count)]
    (message,) = of(findings(drawn(masks, "a\nb\nc\nd\n", reduce_zero_label=True)), "warning")
    assert "1 of 4 classes (d) never occur" in message
    assert "set --data.reduce_zero_label false" in message


def test_a_zero_label_without_a_class_is_reduced_without_a_word(drawn, findings):
    assert findings(drawn([labels((8, 8), (0, 1, 2))] * 3, reduce_zero_label=True)) == []


def test_classes_without_a_pixel_are_named_where_all_was_looked_at(drawn, findings):
    found = findings(drawn([labels((8, 8), (0, 1))] * 3, "sky\nroad\ncar\nbus\n"))
    (message,) = of(found, "warning")
    assert "2 of 4 classes (car, bus) never occur in the 3 training masks" in message
    assert len(found) == 1  # nothing of the validation masks, which scoring tells itself


def test_classes_without_a_pixel_in_a_sample_are_a_short_note(drawn, findings):
    masks = [labels((4, 4), (0, 1))] * (FAST_MASKS + 1)
    data = drawn(masks, "".join(f"class {index}\n" for index in range(150)), val=masks[:1])
    (note,) = of(findings(data), "note")
    assert f"do not occur in the {FAST_MASKS} of {FAST_MASKS + 1} training masks looked at, which may be" in note
    assert "class 6 and 143 more" in note
    assert len(note) < 300
    assert of(findings(data, full=True), "note") == []
    assert len(of(findings(data, full=True), "warning")) == 1


def test_one_class_in_a_sample_is_a_warning_and_in_all_masks_an_error(drawn, findings):
    data = drawn([np.zeros((4, 4), np.uint8)] * (FAST_MASKS + 1), val=[labels((4, 4), (0, 1))])
    assert "no class but sky occurs" in of(findings(data), "warning")[0]
    assert of(findings(data), "error") == []
    assert "no class but sky occurs" in of(findings(data, full=True), "error")[0]


def test_masks_without_any_label_are_told_in_both_splits(drawn, findings):
    found = findings(drawn([np.full((4, 4), 255, np.uint8)] * 2))
    assert "no class occurs in the 2 training masks" in of(found, "error")[0]
    assert "sky, road never occur" in of(found, "error")[0]
    assert "no class occurs in the 2 validation masks" in of(found, "warning", "validation")[0]


@pytest.mark.parametrize(("labelled", "told"), [(4, True), (8, False)])
def test_masks_with_hardly_a_label_are_told(drawn, findings, labelled, told):
    mask = np.full((10, 10), 255, np.uint8)
    mask[0, :labelled] = np.arange(labelled) % 2
    found = findings(drawn([mask] * 2))
    assert [finding.severity for finding in found] == ["warning", "warning"] * told
    assert all("96 % of the pixels are ignored" in finding.message for finding in found)
    assert all("(255: 96 %)" in finding.message for finding in found)


def test_a_class_that_a_mapping_leaves_without_values_is_told(drawn, findings):
    masks = [labels((8, 8), (0, 1, 2))] * 2
    (message,) = of(findings(drawn(masks, "sky\nroad\ncar\n", mapping={2: "road"})), "warning", "")
    assert "no value in a mask stands for car" in message
    assert findings(drawn(masks, mapping={2: "road"})) == []


@pytest.mark.parametrize(("ignored", "told"), [([255], True), (None, False), ([1], False)])
def test_255_as_a_class_and_ignored_is_told(drawn, findings, ignored, told):
    masks = [labels((8, 8), (0, 1, 255))] * 2
    found = findings(drawn(masks, "0 sky\n1 road\n255 cell\n", ignored_ids=ignored))
    assert ["class `cell` of id 255 is left out" in finding.message for finding in found] == [True] * told
