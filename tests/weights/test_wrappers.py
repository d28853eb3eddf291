import pytest
import torch
from torch import nn
from torch.optim.swa_utils import AveragedModel

from src.weights.wrappers import unwrapped

A, B, C = (torch.full((2,), float(number)) for number in range(3))


def names(tree) -> dict[str, list[float]]:
    return {name: value.tolist() for name, value in unwrapped(tree).tensors.items()}


@pytest.mark.parametrize(
    "tree",
    [
        {"x.w": A, "y": B},
        {"state_dict": {"x.w": A, "y": B}, "epoch": 3},
        {"model": {"x.w": A, "y": B}, "optimizer": {"state": {0: {"exp_avg": C}}}},
        {"model": {"state_dict": {"x.w": A, "y": B}}},
        {"model_state_dict": {"x": {"w": A}, "y": B}},
        {"module": {"x.w": A, "y": B}},
        {"net": {"module.x.w": A, "module.y": B}},
        {"weights": {"_orig_mod.module.x.w": A, "_orig_mod.module.y": B}},
        {"state_dict": {"x.module._orig_mod.w": A, "module.y": B}},
        {"teacher": {"x.w": A, "y": B}, "student": {"x.w": C, "y": C}},
        {"state_dict": {"x.w": A, "y": B}, "ema": None, "model_ema": {}},
        {"state_dict": {"x.w": A, "y": B, "x._extra_state": {"scale": 2}, "count": 3}},
    ],
)
def test_the_weights_are_found_under_plain_names(tree):
    assert names(tree) == {"x.w": [0, 0], "y": [1, 1]}


@pytest.mark.parametrize("prefix", ["model.", "backbone.", "encoder.model.", "modules.", "orig_mod."])
def test_prefixes_that_mean_something_stay(prefix):
    assert list(names({f"{prefix}w": A})) == [f"{prefix}w"]


def test_parts_of_a_model_saved_apart_are_joined():
    assert names({"encoder": {"w": A}, "decoder": {"w": {"bias": B}}, "epoch": 1}) == {
        "encoder.w": [0, 0],
        "decoder.w.bias": [1, 1],
    }


@pytest.mark.parametrize(
    "tree",
    [
        {"state_dict_ema": {"w": A}, "state_dict": {"w": C}},
        {"model": {"w": C}, "model_ema": {"module.w": A, "n_averaged": torch.tensor(5)}},
        {"state_dict": {"w": C}, "ema_state_dict": {"w": A}},
        {"model": {"w": C}, "ema": {"decay": 0.99, "shadow": {"w": A}}},
        {"params": {"w": C}, "params_ema": {"w": A}},
        {"model": {"state_dict": {"w": C}, "state_dict_ema": {"w": A}}},
    ],
)
def test_the_average_is_preferred_and_told(tree):
    found = unwrapped(tree)
    assert {name: value.tolist() for name, value in found.tensors.items()} == {"w": [0, 0]}
    key = next(key for key in (*tree, "state_dict_ema") if "ema" in key)
    assert found.notes == (f"the average of the weights ({key}) was taken",)


def test_an_average_of_torch_is_read():
    model = AveragedModel(nn.Linear(2, 1))
    found = unwrapped({"ema": model.state_dict()})
    assert found.tensors.keys() == {"weight", "bias"}


def test_what_lightnings_callback_puts_in_place_of_the_weights_is_the_average():
    tree = {"state_dict": {"model.w": A}, "current_model_state": {"model.w": C}, "averaging_state": {"n_averaged": B}}
    found = unwrapped(tree | {"segmentation": {"format_version": 1, "model": {"class_path": "x"}}})
    assert found.tensors["model.w"].tolist() == [0, 0]
    assert found.notes == (
        "the average of the weights (state_dict) was taken, which stands where the weights are else",
    )
    assert found.facts == {"segmentation": {"format_version": 1, "model": {"class_path": "x"}}}


@pytest.mark.parametrize("mark", [{"message_hub": {}}, {"meta": {"mmengine_version": "0.10.1"}}])
def test_what_mmengines_hook_puts_in_place_of_the_weights_is_the_average(mark):
    """It swaps the two, so that ``ema_state_dict`` is what was trained."""
    tree = {"state_dict": {"w": A}, "ema_state_dict": {"module.w": C, "steps": torch.tensor(5)}}
    assert names(tree | mark) == {"w": [0, 0]}
    assert names(tree) == {"w": [2, 2]}
    assert "state_dict) was taken, which stands where" in unwrapped(tree | mark).notes[0]


def test_what_mmcvs_hook_keeps_beside_the_average_is_left_out():
    found = unwrapped({"state_dict": {"a.b.w": A, "ema_a_b_w": C, "ema_head": B}, "meta": {}})
    assert found.tensors.keys() == {"a.b.w", "ema_head"}
    assert found.notes == ("1 tensors that an average was made from were left out (ema_...)",)


def test_the_teacher_is_told():
    assert unwrapped({"teacher": {"w": A}, "student": {"w": C}}).notes == (
        "the weights of the teacher (teacher) were taken",
    )


def test_facts_are_what_stands_beside_without_states_of_training():
    tree = {
        "meta": {
            "CLASSES": ("a", "b"),
            "PALETTE": torch.tensor([[1, 2, 3]], dtype=torch.uint8),
            "map": torch.zeros(99, 99),
        },
        "state_dict": {"w": A, "count": 3},
        "epoch": 7,
        "step": torch.tensor(9),
        "optimizer_states": [{"state": {0: {"exp_avg": C}}}],
        "lr_schedulers": [{"last_epoch": 3}],
        "hyper_parameters": {"lr": 0.1},
        "callbacks": {"x": {}},
    }
    found = unwrapped(tree)
    assert found.facts == {
        "meta": {"CLASSES": ("a", "b"), "PALETTE": [[1, 2, 3]]},
        "epoch": 7,
        "step": 9,
        "count": 3,
        "hyper_parameters": {"lr": 0.1},
    }
    assert tree["state_dict"].keys() == {"w", "count"}


def test_facts_beside_bare_weights_are_kept_and_are_not_weights():
    found = unwrapped({"w": A, "meta": {"PALETTE": torch.tensor([[1, 2, 3]])}, "classes": ["a"]})
    assert found.tensors.keys() == {"w"}
    assert found.facts == {"meta": {"PALETTE": [[1, 2, 3]]}, "classes": ["a"]}


def test_other_tensors_that_are_left_out_are_told():
    large = torch.zeros(100, 100)
    tree = {"model": {"w": A}, "head": {"w": large}, "queue": large, "small": B, "optimizer": {"m": large}}
    found = unwrapped(tree)
    assert found.notes == ("tensors beside the weights were left out, those of `head`, `queue`",)
    assert found.facts == {"small": [1, 1]}


@pytest.mark.parametrize(
    "twice", [{"module.w": A, "w": B}, {"a.module.w": A, "a._orig_mod.w": B}, {"module": {"w": A, "module.w": B}}]
)
def test_two_tensors_under_one_plain_name_are_refused(twice):
    with pytest.raises(ValueError, match=r"it holds two tensors for (a\.)?w: .*w and .*w; keep one of them"):
        unwrapped(twice)


@pytest.mark.parametrize(
    ("tree", "told"),
    [
        ({}, "got nothing"),
        ({"epoch": 3, "loss": [1.0]}, "got 'epoch', 'loss'"),
        ({"state_dict": {}, "epoch": 1}, "got 'state_dict', 'epoch'"),
        ({"optimizer": {"state": {0: {"m": A}}}}, "got 'optimizer'"),
        (A, "got a tensor alone"),
        ([A, B], "got a list alone"),
        ("text", "got a str alone"),
        ({f"key{i}": i for i in range(30)}, "and 20 more"),
    ],
)
def test_a_file_without_named_tensors_is_refused_with_what_it_holds(tree, told):
    with pytest.raises(ValueError, match=f"it must hold named tensors, .*{told}"):
        unwrapped(tree)


def test_a_name_that_is_a_wrapper_alone_stays():
    assert names({"module": A}) == {"module": [0, 0]}


@pytest.mark.parametrize(
    ("tree", "expected"),
    [
        ({"ema": {"w": A, "decay": B, "n_averaged": torch.tensor(5)}}, {"w", "decay"}),
        ({"module.w": A, "n_averaged": torch.tensor(3)}, {"w"}),
        ({"w": A, "n_averaged": torch.tensor(3)}, {"w", "n_averaged"}),
        ({"w": A, "steps": torch.tensor(3)}, {"w", "steps"}),
    ],
)
def test_counters_of_an_average_go_and_weights_of_their_name_stay(tree, expected):
    assert unwrapped(tree).tensors.keys() == expected


def test_parts_of_a_model_may_be_called_like_states_of_training():
    tree = {"state_dict": {"config.w": A, "net": {"scaler": {"w": B}, "config": {"w": C}}}}
    assert names(tree) == {"config.w": [0, 0], "net.scaler.w": [1, 1], "net.config.w": [2, 2]}


def test_of_facts_of_one_name_the_outer_one_is_taken():
    tree = {"epoch": 2, "model": {"epoch": 1, "state_dict": {"w": A, "epoch": 0, "lr": 3}, "lr": 4, "seed": 5}}
    assert unwrapped(tree).facts == {"epoch": 2, "lr": 4, "seed": 5}


def test_only_small_tensors_become_facts():
    tree = {"state_dict": {"w": A}, "meta": {"small": torch.zeros(3000), "large": torch.zeros(5000)}}
    assert unwrapped(tree | {"also": torch.zeros(4096)}).facts == {"meta": {"small": [0] * 3000}, "also": [0] * 4096}
    many = [torch.zeros(3000), torch.zeros(3000)]
    found = unwrapped(tree | {"many": many, "meta": {"many": many}, "cfg": many})
    assert found.facts == {"meta": {}, "cfg": None}
    assert found.notes == ("tensors beside the weights were left out, those of `meta`, `many`, `cfg`",)


def test_tensors_without_values_are_empty_facts():
    tree = {"state_dict": {"w": A}, "none": torch.zeros(10**9, 0), "meta": {"none": torch.zeros(0, 3)}}
    assert unwrapped(tree).facts == {"none": [], "meta": {"none": []}}


def test_endless_facts_are_refused():
    numbers = torch.zeros(1).expand(4096)
    with pytest.raises(ValueError, match="it must hold at most 262144 numbers beside its weights, got more in tensors"):
        unwrapped({"state_dict": {"w": A}} | {str(number): numbers for number in range(65)})
    assert len(unwrapped({"state_dict": {"w": A}} | {str(number): numbers for number in range(64)}).facts) == 64


@pytest.mark.parametrize("name", ["a\x1b[2J", "a\nb", "a\0", "\ud800", "a\u202eb"])
def test_names_that_steer_a_terminal_are_refused(name):
    for tree in ({name: A}, {"state_dict": {name: {"w": A}}}):
        with pytest.raises(ValueError, match="the names of its tensors must be printable, got '") as error:
            unwrapped(tree)
        assert str(error.value).isprintable()
    assert all(note.isprintable() for note in unwrapped({"model": {"w": A}, name: torch.zeros(5000)}).notes)
    with pytest.raises(ValueError, match="it must hold named tensors, got '") as error:
        unwrapped({name: 3})
    assert str(error.value).isprintable()


def test_names_have_an_end():
    tree = {"a" * 500: {"b" * 499: A}}
    assert list(names(tree)) == [f"{'a' * 500}.{'b' * 499}"]
    with pytest.raises(ValueError, match="it must hold names of at most 1000 characters, got one of 1001"):
        unwrapped({"a" * 500: {"b" * 500: A}})
