from pathlib import Path

import numpy as np
import pytest
from drawn_files import drawn_pair, labels

from src.classes import ClassList
from src.data.labels import LabelEncoder
from src.data.pairs import Pair
from src.data.source import Source

ENCODER = LabelEncoder(ClassList.from_names(["field", "road"]))


def test_reads_and_encodes_a_mask(tmp_path: Path):
    found = drawn_pair(tmp_path, (6, 7))
    assert Source(encoder=ENCODER).labels(found, (6, 7)).tolist() == labels((6, 7), (0, 1)).tolist()


def test_a_reader_of_ones_own_is_used(tmp_path: Path):
    own = Source(read_mask=lambda path: np.ones((6, 7), int), encoder=ENCODER)
    assert own.labels(drawn_pair(tmp_path, (6, 7)), (6, 7)).tolist() == np.ones((6, 7)).tolist()


@pytest.mark.parametrize("source", [Source(), Source(encoder=ENCODER)])
def test_a_missing_mask_is_an_error(source: Source):
    with pytest.raises(ValueError, match=r"a\.png must have a mask"):
        source.labels(Pair("a.png", Path("a.png")), (2, 2))
