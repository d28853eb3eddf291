import pytest
import torch
import torch.nn.functional as F

from src.layers.position_bias import PositionBias, TableBias
from src.layers.position_bias.geometric import geometric_resize
from src.layers.windows import window_coords

CPU = torch.device("cpu")


def random_bias(window, num_heads=2):
    return TableBias(window, num_heads, init_std=1.0)


@pytest.mark.parametrize("window", [(3, 3), (2, 4), (1, 5), (1, 1)])
def test_each_pair_gets_the_value_of_its_relative_place(window):
    bias = random_bias(window)
    coords = window_coords(window, CPU)
    values = bias(coords, coords)
    table = bias.relative_position_bias_table.view(2 * window[0] - 1, 2 * window[1] - 1, 2)
    for i, (row, column) in enumerate(coords.tolist()):
        for j, (key_row, key_column) in enumerate(coords.tolist()):
            expected = table[row - key_row + window[0] - 1, column - key_column + window[1] - 1]
            assert torch.equal(values[:, i, j], expected)


def test_queries_and_keys_may_differ():
    bias = random_bias((3, 3))
    assert isinstance(bias, PositionBias)
    query, key = torch.tensor([[0, 0], [2, 1]]), torch.tensor([[1, 1], [0, 2], [2, 2]])
    coords = window_coords((3, 3), CPU)
    whole = bias(coords, coords)
    assert torch.equal(bias(query, key), whole[:, [[0], [7]], [[4, 2, 8]]])


def test_only_offsets_count():
    bias = random_bias((3, 4))
    coords = window_coords((3, 4), CPU)
    assert torch.equal(bias(coords + 5, coords + 5), bias(coords, coords))


def test_keys_out_of_reach_are_refused():
    with pytest.raises(ValueError, match="must lie within a window of"):
        random_bias((2, 2))(torch.tensor([[0, 0]]), torch.tensor([[0, 2]]))


def test_the_table_is_the_whole_state():
    assert {name: tuple(value.shape) for name, value in random_bias((2, 4), 3).state_dict().items()} == {
        "relative_position_bias_table": (21, 3)
    }


def test_init_std_sets_the_spread():
    torch.manual_seed(0)
    assert TableBias((7, 7), 8).relative_position_bias_table.std().item() == pytest.approx(0.02, rel=0.1)
    assert TableBias((7, 7), 8, init_std=0.5).relative_position_bias_table.std().item() == pytest.approx(0.5, rel=0.1)


def test_unusable_windows_and_heads_are_refused():
    with pytest.raises(ValueError, match="window must be at least 1 token"):
        TableBias((0, 3), 1)
    with pytest.raises(ValueError, match="num_heads must be at least 1"):
        TableBias((3, 3), 0)


@pytest.mark.parametrize("method", ["bicubic", "bilinear", "geometric"])
@pytest.mark.parametrize("window", [(12, 12), (5, 5), (5, 9), (1, 3)])
def test_resized_tables_fit_the_new_window_and_keep_heads_apart(method, window):
    bias = random_bias((7, 7), 3)
    with torch.no_grad():
        bias.relative_position_bias_table[:, 1] = 4.0
    resized = bias.resized(window, method)
    coords = window_coords(window, CPU)
    assert resized(coords, coords).shape == (3, window[0] * window[1], window[0] * window[1])
    assert resized.relative_position_bias_table[:, 1].tolist() == pytest.approx(
        [4.0] * len(resized.relative_position_bias_table)
    )
    assert resized.relative_position_bias_table.requires_grad
    assert bias.window == (7, 7)


def test_each_method_is_its_own_interpolation():
    bias = random_bias((3, 2))
    image = bias.relative_position_bias_table.t().reshape(2, 5, 3)
    for method in ("bicubic", "bilinear"):
        expected = F.interpolate(image[None], (7, 9), mode=method, align_corners=False)[0]
        assert torch.equal(bias.resized((4, 5), method).relative_position_bias_table, expected.flatten(1).t())
    expected = geometric_resize(image, (7, 9)).flatten(1).t()
    assert torch.equal(bias.resized((4, 5), "geometric").relative_position_bias_table, expected)
    assert not torch.allclose(expected, bias.resized((4, 5)).relative_position_bias_table)


@pytest.mark.parametrize("method", ["bicubic", "bilinear", "geometric"])
def test_the_same_window_gives_a_copy(method):
    bias = random_bias((4, 3))
    copy = bias.resized((4, 3), method)
    assert torch.equal(copy.relative_position_bias_table, bias.relative_position_bias_table)
    assert copy.relative_position_bias_table is not bias.relative_position_bias_table


def test_resizing_keeps_dtype():
    assert random_bias((3, 3)).double().resized((5, 5)).relative_position_bias_table.dtype == torch.float64
    assert random_bias((3, 3)).bfloat16().resized((5, 5)).relative_position_bias_table.dtype == torch.bfloat16


def test_an_unknown_method_is_refused():
    with pytest.raises(ValueError, match="method must be bicubic, bilinear or geometric, got 'nearest'"):
        random_bias((3, 3)).resized((5, 5), "nearest")
