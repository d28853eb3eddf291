from src.callbacks.learning_curves import draw_curves


def test_draws_each_value_where_it_was_logged():
    rows = [
        {"step": "0", "train/loss": "2.5", "train/lr": "0.1", "val/miou": ""},
        {"step": "9", "train/loss": "", "train/lr": "", "val/miou": "0.25"},
        {"step": "10", "train/loss": "1.5", "train/lr": "0.2", "val/miou": ""},
    ]
    loss, score, rate = draw_curves(rows).axes
    assert loss.lines[0].get_xydata().tolist() == [[0, 2.5], [10, 1.5]]
    assert score.lines[0].get_xydata().tolist() == [[9, 0.25]]
    assert rate.lines[0].get_xydata().tolist() == [[0, 0.1], [10, 0.2]]
    assert [axes.get_title() for axes in (loss, score, rate)] == ["loss", "score", "learning rate"]


def test_nothing_logged_gives_empty_panels():
    assert [len(axes.lines) for axes in draw_curves([]).axes] == [0, 0, 0]
