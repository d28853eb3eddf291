import pytest
import torch

from src.classes import ClassList
from src.inference.checkpoint import load_checkpoint, read_checkpoint, read_section
from src.models.section import FORMAT_VERSION, MIGRATIONS, SECTION, checkpoint_section
from src.preprocessing import Preprocessing


@pytest.fixture
def model(tiny_segmenter):
    return tiny_segmenter(num_classes=3).eval()


@pytest.fixture
def checkpoint(model):
    section = checkpoint_section(
        model,
        ClassList.from_names(["sky", "tree", "road"]),
        Preprocessing(resize=(200, 50), mean=(1, 2, 3), std=(4, 5, 6)),
    )
    weights = {f"model.{name}": value for name, value in model.state_dict().items()}
    return {SECTION: section, "state_dict": weights | {"loss.weight": torch.ones(1)}, "global_step": 3}


@pytest.fixture
def saved(checkpoint, tmp_path):
    def save(**changes):
        torch.save(checkpoint | changes, tmp_path / "some.ckpt")
        return tmp_path / "some.ckpt"

    return save


def test_what_was_written_is_read(saved, model):
    contents = read_checkpoint(saved())
    assert contents.classes.names == ("sky", "tree", "road")
    assert contents.preprocessing == Preprocessing(resize=(200, 50), mean=(1, 2, 3), std=(4, 5, 6))
    images = torch.randn(1, 3, 33, 47)
    assert torch.equal(contents.build()(images).logits, model(images).logits)


def test_the_section_says_its_format(saved):
    assert load_checkpoint(saved())[SECTION]["format_version"] == FORMAT_VERSION


def test_names_of_a_compiled_model_are_those_of_the_plain_one(checkpoint, saved, model):
    compiled = {
        name.replace("model.", "model._orig_mod.", 1): value for name, value in checkpoint["state_dict"].items()
    }
    assert set(read_checkpoint(saved(state_dict=compiled)).state_dict) == set(model.state_dict())


@pytest.mark.parametrize("content", [{"state_dict": {}}, {}, [1, 2], None, {SECTION: 3, "state_dict": {}}])
def test_checkpoint_of_another_program_is_refused(tmp_path, content):
    torch.save(content, tmp_path / "other.ckpt")
    with pytest.raises(ValueError, match=r"other\.ckpt must be a checkpoint of this toolkit"):
        read_checkpoint(tmp_path / "other.ckpt")


def test_newer_format_is_refused(checkpoint, saved):
    newer = checkpoint[SECTION] | {"format_version": FORMAT_VERSION + 1}
    with pytest.raises(ValueError, match=f"up to {FORMAT_VERSION}, got {FORMAT_VERSION + 1}; update the toolkit"):
        read_checkpoint(saved(**{SECTION: newer}))


@pytest.mark.parametrize("version", [None, 0, -1, True, "1", 1.0])
def test_a_format_that_never_was_is_refused(checkpoint, saved, version):
    with pytest.raises(ValueError, match=r"some\.ckpt is damaged: its format version must be a whole number from 1"):
        read_checkpoint(saved(**{SECTION: checkpoint[SECTION] | {"format_version": version}}))


def test_every_older_format_has_a_way_to_the_next():
    assert sorted(MIGRATIONS) == list(range(1, FORMAT_VERSION))


def test_older_formats_are_brought_to_todays_one_after_another(checkpoint, saved, model, monkeypatch):
    def renamed(old: str, new: str):
        return lambda found: (
            found | {SECTION: {new if key == old else key: value for key, value in found[SECTION].items()}}
        )

    monkeypatch.setattr("src.models.section.FORMAT_VERSION", 3)
    monkeypatch.setitem(MIGRATIONS, 1, renamed("labels", "names"))
    monkeypatch.setitem(MIGRATIONS, 2, renamed("names", "classes"))
    section = {"labels" if key == "classes" else key: value for key, value in checkpoint[SECTION].items()}
    contents = read_checkpoint(saved(**{SECTION: section | {"format_version": 1}}))
    assert contents.classes.names == ("sky", "tree", "road")
    assert load_checkpoint(saved(**{SECTION: section}))[SECTION]["format_version"] == 3


def test_what_a_release_does_not_know_is_passed_over(checkpoint, saved):
    assert read_checkpoint(saved(**{SECTION: checkpoint[SECTION] | {"later": 1}}, later=2)).build().num_classes == 3


def test_section_without_its_parts_is_refused(checkpoint, saved):
    with pytest.raises(ValueError, match="is damaged: it lacks classes, preprocessing"):
        read_checkpoint(saved(**{SECTION: {"format_version": 1, "model": checkpoint[SECTION]["model"]}}))


@pytest.mark.parametrize("key", ["model", "classes", "preprocessing", "task"])
@pytest.mark.parametrize("value", ["text", 3, [1, 2], {1: 2}])
def test_a_part_of_another_type_is_refused(checkpoint, saved, key, value):
    with pytest.raises(ValueError, match=rf"some\.ckpt is damaged: its {key} must be names with values"):
        read_checkpoint(saved(**{SECTION: checkpoint[SECTION] | {key: value}}))


@pytest.mark.parametrize(
    ("key", "value", "told"),
    [
        ("classes", {}, "KeyError: 'names'"),
        ("classes", {"names": ["a", "b"], "palette": [[0, 0, 0]] * 2, "ids": ["x", "y"]}, "TypeError"),
        ("classes", {"names": ["a", "a"], "palette": [[0, 0, 0]] * 2, "ids": [0, 1]}, "must be unique"),
        ("preprocessing", {"mean": 3}, "TypeError"),
        ("preprocessing", {"blur": 3}, "unexpected keyword argument 'blur'"),
        ("preprocessing", {"resize": [0, 0]}, r"preprocessing\.resize must be two sizes"),
    ],
)
def test_values_that_cannot_be_used_are_told_with_the_file(checkpoint, saved, key, value, told):
    with pytest.raises(ValueError, match=rf"some\.ckpt holds settings that cannot be used .*{told}"):
        read_checkpoint(saved(**{SECTION: checkpoint[SECTION] | {key: value}}))


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({}, "KeyError: 'class_path'"),
        ({"class_path": "torch.nn.Identity", "init_args": {}}, "torch.nn.modules.linear.Identity is no Segmenter"),
        ({"class_path": "src.models.Segmenter", "init_args": {}}, "KeyError: 'encoder'"),
        ({"class_path": "os.system", "init_args": {"command": "true"}}, "must be a torch.nn.Module"),
        ({"class_path": "src.models.Segmenter", "init_args": {"sharpness": 1}}, "got none called sharpness"),
    ],
)
def test_a_model_that_cannot_be_built_is_told_with_the_file(checkpoint, saved, changes, told):
    contents = read_checkpoint(saved(**{SECTION: checkpoint[SECTION] | {"model": changes}}))
    with pytest.raises(ValueError, match=rf"some\.ckpt holds settings that cannot be used .*{told}"):
        contents.build()


def test_an_argument_of_a_part_that_a_newer_release_wrote_is_named(checkpoint, saved):
    checkpoint[SECTION]["model"]["init_args"]["encoder"]["init_args"]["sharpness"] = 1
    with pytest.raises(ValueError, match=r"some\.ckpt .*SwinTransformer must have .*got none called sharpness"):
        read_checkpoint(saved()).build()


def test_a_model_far_larger_than_its_weights_is_not_built(checkpoint, saved):
    checkpoint[SECTION]["model"]["init_args"]["encoder"]["init_args"]["embed_dim"] = 16384
    with pytest.raises(ValueError, match=r"some\.ckpt holds settings .* is far larger than its weights"):
        read_checkpoint(saved()).build()


def test_arguments_that_are_none_are_refused(checkpoint, saved):
    checkpoint[SECTION]["model"]["init_args"]["encoder"]["init_args"] = None
    with pytest.raises(ValueError, match=r"some\.ckpt holds settings .*init_args must be names with values"):
        read_checkpoint(saved())


def test_classes_of_another_number_than_the_model_has_are_refused(checkpoint, saved):
    checkpoint[SECTION]["classes"] = ClassList.from_names("ab").to_dict()
    with pytest.raises(ValueError, match=r"some\.ckpt is damaged: it names 2 classes for a model of 3"):
        read_checkpoint(saved()).build()


def without(weights: dict) -> None:
    del weights["model.decoder.conv_seg.bias"]


def with_more(weights: dict) -> None:
    weights["model.decoder.other"] = torch.ones(1)


def with_other_shape(weights: dict) -> None:
    weights["model.decoder.conv_seg.bias"] = torch.ones(9)


def with_text(weights: dict) -> None:
    weights["model.decoder.conv_seg.bias"] = "text"


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (without, r"Missing key.*decoder\.conv_seg\.bias"),
        (with_more, r"Unexpected key.*decoder\.other"),
        (with_other_shape, r"size mismatch for decoder\.conv_seg\.bias"),
        (with_text, r"decoder\.conv_seg\.bias"),
    ],
)
def test_weights_of_another_model_are_told_in_words(checkpoint, saved, change, told):
    change(checkpoint["state_dict"])
    with pytest.raises(ValueError, match=rf"some\.ckpt must hold the weights of the model .*{told}.*; take another"):
        read_checkpoint(saved()).build()


def test_all_weights_of_another_model_are_told_in_a_line(checkpoint, saved):
    with pytest.raises(ValueError, match="must hold the weights of the model that it describes") as error:
        read_checkpoint(saved(state_dict={f"model.other{i}": torch.ones(1) for i in range(1000)})).build()
    assert len(str(error.value)) < 1000
    assert "\n" not in str(error.value)


def test_weights_that_are_not_numbers_are_refused(checkpoint, saved):
    checkpoint["state_dict"]["model.decoder.conv_seg.bias"][1] = torch.nan
    with pytest.raises(ValueError, match=r"some\.ckpt must hold weights that are finite, got others in decoder"):
        read_checkpoint(saved()).build()


def test_part_from_a_missing_package_is_named(checkpoint, saved):
    settings = checkpoint[SECTION]["model"]
    settings["init_args"]["encoder"]["class_path"] = "no_such_package.Encoder"
    with pytest.raises(ImportError, match=r"no_such_package\.Encoder is needed to build this model"):
        read_checkpoint(saved()).build()
    with pytest.raises(ImportError, match=r"some\.ckpt: no_such_package\.Encoder is needed"):
        read_section(saved(**{SECTION: checkpoint[SECTION] | {"task": settings}}))


def test_a_model_without_a_task_is_told(saved):
    with pytest.raises(ValueError, match="must be a checkpoint of a task, got a model alone"):
        read_section(saved())


def test_a_loaded_checkpoint_is_whole_and_has_the_names_of_the_plain_model(checkpoint, saved):
    names = set(checkpoint["state_dict"])
    compiled = {f"_orig_mod.{name}": value for name, value in checkpoint["state_dict"].items()}
    loaded = load_checkpoint(saved(state_dict=compiled))
    assert set(loaded["state_dict"]) == names
    assert loaded[SECTION] == checkpoint[SECTION]
    assert loaded["global_step"] == 3


def test_tensors_go_where_they_are_asked_for(saved):
    weights = load_checkpoint(saved(), map_location="meta")["state_dict"].values()
    assert {value.device.type for value in weights} == {"meta"}


def test_weights_are_missed(checkpoint, tmp_path):
    torch.save({SECTION: checkpoint[SECTION]}, tmp_path / "some.ckpt")
    with pytest.raises(ValueError, match="is damaged: it lacks state_dict"):
        load_checkpoint(tmp_path / "some.ckpt")


def test_a_folder_of_save_pretrained_is_read_as_a_checkpoint_is(model, tmp_path):
    classes, preprocessing = ClassList.from_names(["sky", "tree", "road"]), Preprocessing(resize=(200, 50))
    contents = read_checkpoint(model.save_pretrained(tmp_path / "saved", classes, preprocessing))
    assert (contents.classes, contents.preprocessing) == (classes, preprocessing)
    images = torch.randn(1, 3, 33, 47)
    assert torch.equal(contents.build()(images).logits, model(images).logits)


def test_a_folder_that_does_not_tell_how_to_label_is_told(model, tmp_path):
    folder = model.save_pretrained(tmp_path / "saved", preprocessing=Preprocessing())
    with pytest.raises(ValueError, match="must tell its classes to label images"):
        read_checkpoint(folder)
    with pytest.raises(ValueError, match="must tell its classes and preprocessing to label images"):
        read_checkpoint(model.save_pretrained(folder))


def test_any_other_folder_is_told(tmp_path):
    with pytest.raises(ValueError, match="which is a folder; give one in it"):
        read_checkpoint(tmp_path)
