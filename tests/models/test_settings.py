import pytest
import torch
from torch import nn

from src.models.importing import imported
from src.models.settings import RecordsSettings, build, build_recorded, factory, plain


class Scale(RecordsSettings, nn.Module):
    def __init__(self, factor: float = 2.0, shifts: tuple[int, ...] = (1, 2)) -> None:
        super().__init__()
        self.factor, self.shifts = factor, tuple(shifts)


class NamedScale(Scale):
    def __init__(self, name: str, **scale: float) -> None:
        super().__init__(**scale)
        self.name = name


class Pair(RecordsSettings, nn.Module):
    def __init__(self, first: nn.Module, second: nn.Module) -> None:
        super().__init__()
        self.first, self.second = first, second


def test_defaults_and_arguments_are_recorded():
    assert Scale(shifts=(3,)).settings["init_args"] == {"factor": 2.0, "shifts": (3,)}


def test_positional_arguments_get_their_names():
    assert Scale(5.0).settings["init_args"]["factor"] == 5.0


def test_a_subclass_records_its_own_arguments_once():
    settings = NamedScale("wide", factor=3.0).settings
    assert settings["class_path"].endswith("NamedScale")
    assert settings["init_args"] == {"name": "wide", "factor": 3.0}


def test_settings_build_an_equal_object_through_plain_types():
    pair = build(plain(Pair(Scale(3.0, (4, 5)), NamedScale("thin", factor=0.5))))
    assert (pair.first.factor, pair.first.shifts) == (3.0, (4, 5))
    assert (pair.second.name, pair.second.factor) == ("thin", 0.5)
    assert plain(pair) == plain(Pair(Scale(3.0, (4, 5)), NamedScale("thin", factor=0.5)))


def test_plain_settings_are_read_in_safe_mode(tmp_path):
    torch.save(plain(Pair(Scale(), Scale())), tmp_path / "settings.pt")
    assert build(torch.load(tmp_path / "settings.pt", weights_only=True)).first.factor == 2.0


def test_given_arguments_win_over_recorded_ones():
    assert build(plain(Scale(3.0)), factor=4.0).factor == 4.0
    assert factory(plain(Scale(3.0)))(shifts=(9,)).shifts == (9,)


def test_what_has_no_plain_form_is_named():
    with pytest.raises(ValueError, match=r"model\.first cannot be written into a checkpoint: got Linear"):
        plain({"first": nn.Linear(1, 1)}, "model")


def test_nothing_but_a_module_is_called_for_settings():
    with pytest.raises(ValueError, match=r"must be a torch\.nn\.Module .*got os\.system"):
        build({"class_path": "os.system", "init_args": {"command": "true"}})


@pytest.mark.parametrize("path", ["no_such_package.Model", "src.models.NoSuchModel", "Model"])
def test_a_missing_class_is_named(path):
    with pytest.raises(ImportError, match=f"{path} is needed to build this model"):
        imported(path)


def test_an_object_of_another_library_is_told_how_to_be_recorded():
    with pytest.raises(ValueError, match=r"model\.loss\.first cannot .*got Linear.*settings\.build_recorded\.$"):
        plain({"loss": Pair(nn.Linear(1, 1), Scale())}, "model")
    linear = build_recorded(nn.Linear, in_features=2, out_features=3)
    assert build(plain(Pair(linear, Scale()))).first.weight.shape == (3, 2)


@pytest.mark.parametrize(
    ("init", "told"), [(lambda self, *parts: None, r"\*parts"), (lambda self, parts, /: None, "parts")]
)
def test_arguments_without_a_name_are_refused_with_the_class(init, told):
    with pytest.raises(TypeError, match=rf"Unnamed\.__init__ must take .*got {told}; take parts by name"):
        type("Unnamed", (RecordsSettings,), {"__init__": init, "__qualname__": "Unnamed"})
