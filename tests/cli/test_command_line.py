import pytest

from src.cli.command_line import CommandLine, parser_words, read_command_line
from src.cli.config_file import CONFIGS, ConfigFile

SAMPLE = CONFIGS / "sample.yaml"


def line(*flags: str, subcommand: str = "predict", **values) -> CommandLine:
    return CommandLine(subcommand, [ConfigFile(SAMPLE, values)] if values else [], list(flags))


def test_configs_and_flags_are_told_apart_wherever_they_stand():
    words = ["fit", "--a", "1", "--config", "sample.yaml", "--b=2", "-c", "sample.yaml", "--config=sample.yaml"]
    read = read_command_line(words)
    assert read.subcommand == "fit"
    assert [config.path for config in read.configs] == [SAMPLE] * 3
    assert read.flags == ["--a", "1", "--b=2"]
    assert read_command_line(["--help"]) == CommandLine("", [], ["--help"])
    assert read_command_line([]) == CommandLine()


def test_the_last_value_counts_and_a_flags_wins():
    assert line(ckpt_path="a").value("ckpt_path") == "a"
    assert line("--ckpt_path", "b", ckpt_path="a").value("ckpt_path") == "b"
    assert line("--ckpt_path", "b", "--x", "y", "--ckpt_path=c").value("ckpt_path") == "c"
    assert line(trainer={"default_root_dir": "d"}).value("trainer.default_root_dir") == "d"
    assert line(trainer=3).value("trainer.default_root_dir") is None
    both = CommandLine("fit", [ConfigFile(SAMPLE, {"ckpt_path": "a"}), ConfigFile(SAMPLE, {"ckpt_path": None})])
    assert both.value("ckpt_path") == "a"
    assert line("--x", "y", "--ckpt_path", "b", "--ckpt_path=c", "--z").without_flag("--ckpt_path") == [
        "--x",
        "y",
        "--z",
    ]


def test_a_flag_is_seen_in_all_its_spellings():
    for flag in ("--data", "--data=x", "--data+", "--data.images", "--data.images=x"):
        assert line(flag, "x").has_flag("--data")
    assert not line("--database", "data").has_flag("--data")


@pytest.mark.parametrize(
    ("typed", "read"),
    [
        (["--data.images", "a"], ["--data.images", "a"]),
        (["--data.images=a"], ["--data.images=a"]),
        (["--data.images", "a", "b c", "--x"], ['--data.images=["a", "b c"]', "--x"]),
        (["--data.images=a", "b"], ['--data.images=["a", "b"]']),
        (["--data.images", "-1.jpg", "ä.jpg", "--x", "b"], ['--data.images=["-1.jpg", "ä.jpg"]', "--x", "b"]),
        (["--data.masks", "a", "b"], ["--data.masks", "a", "b"]),
        (["--data.images"], ["--data.images"]),
    ],
)
def test_what_a_shell_makes_of_a_pattern_becomes_a_list_of_images(typed, read):
    assert read_command_line(["predict", *typed]).flags == read


def test_a_run_is_named_after_its_first_config_or_by_one_that_was_saved():
    assert line().run_name is None
    assert line(trainer={}).run_name == "sample"
    for name in ("mine", "mine-validate", "mine-test", "mine-predict"):
        assert line(name=name).run_name == "mine"


def test_other_images_take_the_place_of_our_own_data_only():
    ours, images = {"class_path": "src.data.MaskFolder"}, "--data.images=x"
    assert line(images, data=ours).predicts_other_images
    assert not line(images, data=ours, subcommand="fit").predicts_other_images
    assert not line(images).predicts_other_images
    assert not line("--output=x", data=ours).predicts_other_images
    assert not line(images, "--data=src.data.MaskFolder", data=ours).predicts_other_images
    assert not line(images, data={"class_path": "src.data.ImageFolder"}).predicts_other_images
    assert not line(images, data={"class_path": "tiles.Tiles"}).predicts_other_images


@pytest.mark.parametrize(
    ("typed", "given"),
    [
        (["--a", "1", "--b=null", "--data.root", "null"], ["--a", "1", "--b=null", "--data.root", "null"]),
        (
            ["--model.model.auxiliary", "null"],
            ['--config={"model": {"init_args": {"model": {"init_args": {"auxiliary": null}}}}}'],
        ),
        (
            ["--print_config", "--model.a.b", "null", "--x", "null"],
            ["--print_config", '--config={"model": {"init_args": {"a": {"init_args": {"b": null}}}}}', "--x", "null"],
        ),
        (["--data.augmentation.x=null"], ['--config={"data": {"init_args": {"augmentation": {"x": null}}}}']),
        (["--data.mapping", "{11: null}"], ['--data.mapping={"11": null}']),
        (["--data.mapping=11:", "--x", "y"], ['--data.mapping={"11": null}', "--x", "y"]),
        (["--data.mapping", "{11: null, 3: 4}"], ["--data.mapping", "{11: null, 3: 4}"]),
        (["--panels.height", "${data.init_args.x}"], ['--config={"panels": {"height": "${data.init_args.x}"}}']),
    ],
)
def test_what_only_a_config_can_say_is_given_as_one(typed, given):
    assert list(parser_words(typed)) == given
