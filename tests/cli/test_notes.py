from pathlib import Path

import pytest
import yaml

from src.cli import SegmentationCLI


class Parsed(SegmentationCLI):
    """Stops where the command line is understood."""

    def before_instantiate_classes(self) -> None:
        raise KeyboardInterrupt


@pytest.fixture
def notes(tiny_config, capsys):
    """What is noted on a command line."""

    def run(subcommand: str, *arguments: str) -> list[str]:
        with pytest.raises(KeyboardInterrupt):
            Parsed(subcommand, ["--config", str(tiny_config), *arguments])
        said = capsys.readouterr().err.splitlines()
        return [line.removeprefix("note: ") for line in said if line.startswith("note: ")]

    return run


MASKS = ["--data", "src.data.MaskFolder", "--data.images", "a", "--data.masks", "m", "--data.classes", "c"]


def test_nothing_is_noted_where_nothing_is_left_out(notes):
    assert notes("fit") == []
    assert notes("fit", "--model.optimizer.lr", "0.1", "--model.model.num_classes", "8") == []


def test_what_another_class_does_not_take_is_noted_and_the_rest_is_kept(notes, tiny_config, printed):
    root = "data.root is not an option of src.data.MaskFolder and was left out"
    assert notes("fit", *MASKS) == [root]
    assert notes("fit", "--data.root", "x", *MASKS) == [root]
    data = printed("fit", "--config", str(tiny_config), *MASKS)["data"]["init_args"]
    assert (data["batch_size"], data["crop_size"], data["num_workers"]) == (2, 32, 0)
    (said,) = notes("fit", "--model.model.encoder", "src.models.SmpEncoder", "--model.model.encoder.name", "resnet18")
    assert said.startswith("model.model.encoder.embed_dim, model.model.encoder.depths, ")
    assert said.endswith(" are not options of src.models.SmpEncoder and were left out")


def test_another_class_in_a_later_config_is_noted_too(notes):
    Path("more.yaml").write_text("data: {class_path: src.data.ADE20K, init_args: {root: x}}")
    assert notes("fit", "--config", "more.yaml") == []
    Path("more.yaml").write_text("data: {class_path: src.data.ImageFolder, init_args: {images: x}}")
    assert notes("fit", "--config", "more.yaml") == [
        "data.root is not an option of src.data.ImageFolder and was left out"
    ]


def test_a_checkpoints_model_leaves_nothing_out(checkpoint, notes):
    flags = ["--config", str(Path(checkpoint).with_name("config.yaml")), "--ckpt_path", checkpoint]
    assert notes("validate", *flags) == []
    assert notes("fit", "--ckpt_path", checkpoint) == []


def test_options_of_the_optimizer_are_said_to_do_nothing_in_a_run_that_goes_on(checkpoint, notes):
    (said,) = notes("fit", "--ckpt_path", checkpoint, "--model.optimizer.lr", "0.1")
    assert said.startswith("with --ckpt_path the optimizer goes on as the checkpoint has it, learning rate")


def test_a_config_of_another_release_is_told_what_changed(checkpoint, notes):
    saved = yaml.safe_load(Path(checkpoint).with_name("config.yaml").read_text())
    for release, said in (("0.1.0", "since 0.2.0 the data are checked"), ("99.0.0", "what is newer is not known here")):
        Path("old.yaml").write_text(yaml.safe_dump(saved | {"release": release}))
        (line,) = notes("fit", "--config", "old.yaml")
        assert line.startswith(f"old.yaml was made by release {release}")
        assert said in line
    saved["trainer"]["default_root_dir"] = "out"
    Path("old.yaml").write_text("# lightning.pytorch==2.6.6\n" + yaml.safe_dump(saved | {"release": None}))
    assert len(notes("fit", "--config", "old.yaml")) == 2


def test_a_saved_config_carries_the_release_of_the_run(checkpoint):
    from src import __version__

    config = Path(checkpoint).with_name("config.yaml")
    assert yaml.safe_load(config.read_text())["release"] == __version__
