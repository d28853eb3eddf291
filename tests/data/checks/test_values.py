import re

import numpy as np
import pytest
from drawn_files import labels, save

from src.data.checks import Finding


def training_errors(found: list[Finding]) -> list[str]:
    return [finding.message for finding in found if finding.severity == "error" and "training" in finding.message]


def test_values_beyond_the_classes_are_named_with_file_and_allowed_ids(drawn, findings, tmp_path):
    good, bad = labels((8, 8), (0, 1, 2)), labels((8, 8), (0, 1, 2, 3))
    (message,) = training_errors(findings(drawn([good, good, bad, good], "sky\nroad\ncar\n")))
    assert f"data.classes (0, 1, 2) or of data.ignored_ids (255), got 3 ({(bad == 3).sum()} pixels) in 1 of" in message
    assert str(tmp_path / "train" / "masks" / "002.png") in message
    assert 'if 3 is no class, give --data.ignored_ids "[3, 255]"; only if 0 means unlabelled' in message
    assert "so that 1 is sky, --data.reduce_zero_label true" in message
    ignoring = drawn([good, good, bad, good], "sky\nroad\ncar\n", ignored_ids=[3, 255])
    assert findings(ignoring) == []


def test_several_files_and_values_are_summed_up(drawn, findings):
    (message,) = training_errors(findings(drawn([np.full((4, 4), 50 + i, np.uint8) for i in range(9)])))
    assert "got 50 (16 pixels), 51 (16 pixels)" in message
    assert "54 (16 pixels) and 4 more in 9 of the 9 training masks" in message
    assert message.count(".png") == 5
    assert "add the values to data.classes, data.mapping or data.ignored_ids" in message


@pytest.mark.parametrize(
    ("ids", "classes", "arguments", "remedy"),
    [
        ((0, 255), "sky\nroad\n", {"ignored_ids": []}, '--data.mapping "{255: 1}"'),
        ((0, 1), "0 sky\n255 road\n", {}, '--data.mapping "{1: 255}"'),
        ((0, 1, 2), "sky\nroad\n", {}, "--data.reduce_zero_label true"),
        ((0, 1, 2), "1 sky\n2 road\n", {}, "if 0 means unlabelled, add it to data.ignored_ids"),
    ],
)
def test_common_mix_ups_have_a_remedy_of_their_own_that_mends_them(drawn, findings, ids, classes, arguments, remedy):
    masks = [labels((8, 8), ids)] * 2
    (message,) = training_errors(findings(drawn(masks, classes, **arguments)))
    assert remedy in message
    mended = {
        '--data.mapping "{255: 1}"': {"mapping": {255: 1}},
        '--data.mapping "{1: 255}"': {"mapping": {1: 255}},
        "--data.reduce_zero_label true": {"reduce_zero_label": True},
    }.get(remedy, {"ignored_ids": [0]})
    assert findings(drawn(masks, classes, **mended)) == []


def test_a_mapping_is_not_advised_beside_reduce_zero_label_which_forbids_it(drawn, findings):
    (message,) = training_errors(
        findings(drawn([labels((8, 8), (0, 255))] * 2, ignored_ids=[], reduce_zero_label=True))
    )
    assert 'want --data.reduce_zero_label false --data.mapping "{255: 1}"' in message
    (message,) = training_errors(findings(drawn([labels((8, 8), (0, 1, 2, 9))] * 2, reduce_zero_label=True)))
    assert message.endswith("add the values to data.classes or data.ignored_ids.")


def test_known_values_of_every_kind_are_no_finding(drawn, findings):
    masks = [labels((8, 8), (0, 1, 7, 9, 255))] * 2
    assert findings(drawn(masks, mapping={7: "road", 9: None}, ignored_ids=[255])) == []


def test_values_of_16_bits_are_counted(drawn, findings, tmp_path):
    data = drawn([labels((4, 4), (0, 1))] * 2)
    save(tmp_path / "train" / "masks" / "000.png", np.full((4, 4), 459, np.uint16))
    assert re.search(r"got 459 \(16 pixels\) in 1 of", training_errors(findings(data))[0])
