import torch

from src.callbacks.class_table import class_rows
from src.metrics import Scores


def test_a_row_for_each_class_and_empty_cells_where_there_is_no_score():
    scores = Scores.from_confusion(torch.tensor([[3, 1, 0], [0, 0, 0], [0, 0, 0]]))
    assert class_rows(("a", "b", "c"), scores) == [
        ("a", "0.7500", "0.7500", "4"),
        ("b", "0.0000", "", "0"),
        ("c", "", "", "0"),
    ]
