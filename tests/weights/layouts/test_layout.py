import pytest
import torch

from src.weights.layouts import LAYOUTS
from src.weights.layouts.layout import SAME, Layout, Row, prefixes, same
from src.weights.layouts.reordering import FUSED, GRID, KEY_BIAS, ROW, UNFOLDED


def layout(*rows, **options):
    given = {"rest": (), "roots": {"encoder": ""}, "marks": ("{root}a.weight",)} | options
    return Layout(name="own", encoder=rows, **given)


def numbered(*names):
    return {name: torch.tensor(float(i)) for i, name in enumerate(names)}


@pytest.mark.parametrize(
    ("theirs", "ours", "pairs"),
    [
        ("a.{i}", "b.{i}", {"a.0.weight": "b.0.weight", "a.12.bias": "b.12.bias", "a.3": "b.3"}),
        ("a.{i+1}", "b.{i}", {"a.1": "b.0", "a.10": "b.9"}),
        ("a.{2i+1}.{j}", "b.{i}.{j}", {"a.1.0": "b.0.0", "a.7.4": "b.3.4"}),
        ("a.{2-k}", "b.{k}", {"a.0": "b.2", "a.2": "b.0"}),
        ("a.{*}", "b.{*}", {"a.x.y.weight": "b.x.y.weight"}),
        ("a", "b", {"a.running_mean": "b.running_mean", "a.num_batches_tracked": "b.num_batches_tracked"}),
    ],
)
def test_names_in_both_directions(theirs, ours, pairs):
    table = layout(Row(theirs, ours))
    there, left_over = table.to_ours(numbered(*pairs), "")
    assert list(there) == [f"encoder.{name}" for name in pairs.values()]
    assert left_over == []
    back, left_over = table.to_theirs(there, "encoder")
    assert list(back) == list(pairs)
    assert [float(value) for value in back.values()] == list(range(len(pairs)))


@pytest.mark.parametrize(
    ("template", "name"),
    [
        ("a.{i+1}", "a.0"),
        ("a.{2i+1}", "a.2"),
        ("a.{2-k}", "a.3"),
        ("a.{i}.{i}", "a.1.2"),
        ("a.{i}", "a.x"),
        ("a", "a.weights"),
        ("a", "ab"),
        ("a.b", "a_b"),
        ("a.{i}", "a." + "1" * 5000),
    ],
)
def test_names_that_a_template_does_not_mean(template, name):
    assert layout(Row(template, "b")).to_ours(numbered(name), "") == ({}, [name])


def test_the_root_stands_before_the_encoder_and_where_the_rest_says_so():
    table = layout(Row("a", "b"), rest=(Row("{root}norm", "classifier.norm"), Row("head", "classifier.head")))
    state = numbered("back.a", "back.norm", "head", "norm")
    ours, left_over = table.to_ours(state, "back.")
    assert list(ours) == ["encoder.b", "classifier.norm", "classifier.head"]
    assert left_over == ["norm"]


def test_a_name_goes_the_first_of_two_rows():
    ours, left_over = layout(Row("a.{i}", "first.{i}"), Row("a.0", "second")).to_ours(numbered("a.0", "a.1"), "")
    assert list(ours) == ["encoder.first.0", "encoder.first.1"]
    assert left_over == []


def test_two_names_of_one_weight_do_not_overwrite_each_other():
    ours, left_over = layout(Row("a", "x"), Row("b", "x")).to_ours(numbered("a.weight", "b.weight", "b.bias"), "")
    assert {name: float(value) for name, value in ours.items()} == {"encoder.x.weight": 0, "encoder.x.bias": 2}
    assert left_over == ["b.weight"]


def test_a_row_of_several_names_wants_all_of_them():
    row = Row(("q", "k", "v"), "qkv", FUSED)
    state = {
        f"{name}.{end}": torch.full((2, 2), float(i)) for i, name in enumerate("vkq") for end in ("weight", "bias")
    }
    ours, left_over = layout(row).to_ours(state, "")
    assert ours["encoder.qkv.weight"].tolist() == [[2.0, 2.0]] * 2 + [[1.0, 1.0]] * 2 + [[0.0, 0.0]] * 2
    assert left_over == []
    for missing in "qkv":
        rest = {name: value for name, value in state.items() if name != f"{missing}.bias"}
        ours, left_over = layout(row).to_ours(rest, "")
        assert list(ours) == ["encoder.qkv.weight"]
        assert sorted(left_over) == sorted(f"{name}.bias" for name in "qkv" if name != missing)


def test_a_tensor_that_cannot_be_changed_is_told_by_name():
    state = {f"{name}.bias": torch.zeros(4 - i) for i, name in enumerate("qkv")}
    with pytest.raises(
        ValueError, match=r"q.bias and k.bias and v.bias must be of one shape, got \(4,\), \(3,\), \(2,\)"
    ):
        layout(Row(("q", "k", "v"), "qkv", FUSED)).to_ours(state, "")


@pytest.mark.parametrize("shape", [(), (0,), (0, 0), (0, 3), (4, 0), (1, 0, 4), (1, 4, 0), (1, 4, 0, 2), (0, 4, 2, 2)])
@pytest.mark.parametrize("change", [FUSED, GRID, KEY_BIAS, ROW, UNFOLDED])
def test_tensors_without_values_are_refused_where_values_are_changed(change, shape):
    theirs = ("q", "k", "v") if change is FUSED else "a"
    ours = ("q", "v") if change is KEY_BIAS else "b"
    state = dict.fromkeys("qkva", torch.zeros(shape))
    with pytest.raises(ValueError, match=r"^(q and k and v|a) must be of one axis or more, none of them empty, got \("):
        layout(Row(theirs, ours, change)).to_ours(state, "")
    kept, _ = layout(*same("a")).to_ours(state, "")
    assert kept["encoder.a"].shape == shape


def test_a_name_in_an_error_cannot_steer_a_terminal():
    table = layout(Row("a{*}", "b{*}", UNFOLDED))
    with pytest.raises(ValueError, match=r"^a\\x1b\[31m must have four times") as told:
        table.to_ours({"a\x1b[31m": torch.zeros(3)}, "")
    assert str(told.value).isprintable()


def test_rows_of_the_same_name_on_both_sides():
    assert same() == ()
    assert same("a.{i}", "b") == (Row("a.{i}", "a.{i}", SAME), Row("b", "b", SAME))


def test_what_follows_from_the_rest_is_dropped_and_not_told():
    state = numbered("a.relative_position_index", "a.attn_mask", "a.relative_coords_table", "a.attn_mask_token")
    assert layout(Row("b", "b")).to_ours(state, "") == ({}, ["a.attn_mask_token"])


def test_prefixes_are_whole_parts_of_a_name():
    table = layout(Row("a", "a"), roots={"encoder": "", "segmentor": "back."}, marks=("{root}a.weight", "{root}b"))
    names = ["back.a.weight", "back.b", "x.y.back.a.weight", "x.y.back.b", "z.a.weight", "z.b", "q.a.weight"]
    names += ["fullback.a.weight", "fullback.b", "za.weight"]
    expected = [("", "back."), ("x.y.", "back."), ("z.", ""), ("fullback.", "")]
    assert list(prefixes(names, table)) == expected


def test_a_name_that_no_file_of_the_layout_has():
    table = layout(Row("a", "a"), absent=("{root}norm{i}.weight", "head.{*}"))
    assert list(prefixes(["a.weight", "norm.weight"], table)) == [("", "")]
    assert list(prefixes(["a.weight", "norm3.weight"], table)) == []
    assert list(prefixes(["p.a.weight", "norm3.weight"], table)) == [("p.", "")]
    assert list(prefixes(["p.a.weight", "p.head.x.y"], table)) == []


@pytest.mark.parametrize("known", LAYOUTS, ids=lambda known: f"{known.name}-{known.version}")
def test_the_first_mark_of_every_layout_is_below_its_root(known):
    assert known.marks[0].startswith("{root}")
    assert "{root}" not in repr(known.encoder)
    assert known.roots
