from pathlib import Path

import pytest

from src.cli import SegmentationCLI
from src.cli.usage_errors import UsageError, class_options, leaves

SAMPLE = ["fit", "--config", "sample.yaml"]
ENCODER = "--model.model.encoder"


def refused(*words: str) -> str:
    with pytest.raises(UsageError) as error:
        SegmentationCLI(None, list(words))
    said = str(error.value)
    assert len(said) < 400
    assert "\n" not in said
    return said


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--trainer.max_step", "3"], "--trainer.max_step is not an option of fit; nearest: --trainer.max_steps."),
        (["--trainer", "{max_step: 3}"], "--trainer.max_step is not an option; nearest: --trainer.max_steps."),
        (["--data.crop_sizes", "3"], "--data.crop_sizes is not an option; nearest: --data.crop_size."),
        (["--data.crop_siz", "3"], "--data.crop_siz is not an option; nearest: --data.crop_size."),
        (
            [f"{ENCODER}.window_sizes", "3"],
            f"{ENCODER}.window_sizes is not an option; nearest: {ENCODER}.window_size.",
        ),
        (
            ["--data.preprocessing.resiz", "[1,2]"],
            "--data.preprocessing.resiz is not an option; nearest: --data.preprocessing.resize.",
        ),
        (["--modle.x", "3"], "--modle.x is not an option of fit; nearest: --model."),
        (["--qqq", "3"], "--qqq is not an option of fit; --help lists what there is."),
        (["--data.zzz", "3"], "--data.zzz is not an option; src.data.Sample has root, crop_size, "),
        (["--trainer.max_steps", "abc"], "--trainer.max_steps must be a whole number, got abc."),
        (["--data.crop_size", "x"], "--data.crop_size must be a whole number or a list, got x."),
        (["--data.test_split", "x"], "--data.test_split must be one of train, val, got x."),
        ([f"{ENCODER}.depths", "[1,x]"], f"{ENCODER}.depths must be a whole number, got x."),
        ([f"{ENCODER}.drop_path_rate", "yes"], f"{ENCODER}.drop_path_rate must be a number, got True."),
        (["--trainer.max_steps"], "--trainer.max_steps must have a value, got none; "),
        (["--name", "-x"], "--name must have a value, got none; one that begins with a dash is given as --name=VALUE."),
        (
            [ENCODER, "src.models.SwinTransfomer"],
            f"{ENCODER} must be a class, got src.models.SwinTransfomer, which does not exist; nearest: "
            f"src.models.SwinTransformer.",
        ),
        (
            [ENCODER, "SwinTransfomer"],
            f"{ENCODER} must be a class, as in package.module.Class, got SwinTransfomer; nearest: "
            f"src.models.SwinTransformer.",
        ),
        (
            [ENCODER, "nowhere.Swin"],
            f"{ENCODER} must be a class that can be imported, but there is no module nowhere; install its package.",
        ),
        (
            ["--data", "src.models.SwinTransformer"],
            "--data must be a class that derives from SegmentationDataModule, got src.models.SwinTransformer.",
        ),
        (
            ["--trainer.callbacks+", "lightning.pytorch.callbacks.LearningRateMonitr"],
            "--trainer.callbacks must be a class, got lightning.pytorch.callbacks.LearningRateMonitr, which does not",
        ),
        (
            ["--data", "src.data.MaskFolder"],
            "--data.images, --data.masks, --data.classes of src.data.MaskFolder must be given, and are not; ",
        ),
        (["--data.ignored_ids", "11"], "--data.ignored_ids is not an option; src.data.Sample has root, crop_size"),
        (
            ["--data", "src.data.MaskFolder", "--data.ignored_ids", "11"],
            '--data.ignored_ids must be a list or null, got 11; for example "[11]".',
        ),
        (
            ["--data", "src.data.MaskFolder", "--data.mapping", "{void: null}"],
            "--data.mapping is refused: its keys must be whole numbers, got 'void'.",
        ),
        (
            ["--model.model.decoder", "src.models.UPernetDecoder"],
            "--model.model.decoder must be a class, got src.models.UPernetDecoder, which does not exist; nearest: "
            "src.models.UPerNetDecoder.",
        ),
        (["extra"], "every value must follow its option, got extra alone; put a pattern "),
        (
            ["--data", "src.data.MaskFolder", "--data.masks", "a", "b"],
            "every value must follow its option, got b alone; put a pattern or a value with blanks in quotes",
        ),
        (["--panels.height", "${data.init_args.x}"], "panels.height refers to a value that is not there: "),
    ],
)
def test_what_is_typed_wrong_is_said_in_a_line(flags, said):
    assert refused(*SAMPLE, *flags).startswith(said)


def test_a_folder_that_hides_a_module_is_named(tmp_path, monkeypatch, tiny_config):
    (tmp_path / "tiles").mkdir()
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(UsageError, match=r"got tiles.Tiles, but tiles is a folder without a module; put the module's"):
        SegmentationCLI("fit", [f"--config={tiny_config}", "--data=tiles.Tiles"])


def test_a_config_that_changes_a_model_before_one_is_told_is_named():
    for words in (["model/nano.yaml"], ["model/nano.yaml", "custom_masks.yaml"]):
        with pytest.raises(UsageError, match=r"embed_dim in .*nano\.yaml is not an option; no class is told for this"):
            SegmentationCLI("fit", [f"--config={word}" for word in words])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("trainer: {max_step: 3}", "trainer.max_step in x.yaml is not an option; nearest: --trainer.max_steps."),
        ("trainer: {max_steps: abc}", "trainer.max_steps in x.yaml must be a whole number, got abc."),
        ("trainer: 3", "trainer in x.yaml must hold keys and values, got 3."),
        ("modle: 3", "modle in x.yaml is not an option; nearest: --model."),
        ("data: {class_path: src.data.Sampl}", "data in x.yaml must be a class, got src.data.Sampl, which does not"),
        (
            "data: {init_args: {preprocessing: {resiz: [1, 2]}}}",
            "data.preprocessing.resiz in x.yaml is not an option; nearest: --data.preprocessing.resize.",
        ),
        (
            "model: {init_args: {model: {init_args: {encoder: {init_args: {window_sizes: 3}}}}}}",
            f"model.model.encoder.window_sizes in x.yaml is not an option; nearest: {ENCODER}.window_size.",
        ),
    ],
)
def test_what_is_wrong_in_a_config_is_said_with_the_file(text, said):
    Path("x.yaml").write_text(text)
    assert refused(*SAMPLE, "--config", "x.yaml").startswith(said)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "the first word must be one of fit, validate, test, predict, got none; for example "),
        (["--config", "sample.yaml"], "the first word must be one of fit, validate, test, predict, got none; "),
        (["vaildate"], "the first word must be one of fit, validate, test, predict, got vaildate; nearest: validate."),
        (["fit"], "--config must be given to fit, for example `python -m src.fit --config sample.yaml`."),
        (
            ["fit", "--model", "src.tasks.SemanticSegmentation"],
            "--model.model of src.tasks.SemanticSegmentation must be",
        ),
        (["fit", "--config", "sample.yaml", "--ckpt_path", ""], "--ckpt_path must have a value, got none."),
        (["predict", "--data.images", ".", "--output", "m"], "--ckpt_path must be given to predict"),
        (["validate", "--config", "sample.yaml"], "--ckpt_path must be given to validate"),
    ],
)
def test_what_is_missing_is_said_with_an_example(words, said):
    assert refused(*words).startswith(said)


def test_predicting_without_images_or_output_is_answered_with_a_whole_command(checkpoint):
    for flags, option in ((["--output", "m"], "--data.images"), (["--data.images", "."], "--output")):
        said = refused("predict", "--ckpt_path", checkpoint, *flags)
        assert said.startswith(option)
        assert said.endswith("`python -m src.predict --ckpt_path best --data.images photos/ --output masks/`.")


def test_the_innermost_of_what_the_parser_says_counts():
    message = (
        'Parser key "data":\n\n  - Expected a path but x either not accessible or invalid\n  Errors:\n'
        "    - Problem with given class_path 'p.C':\n        Parser key \"init_args.size\":\n"
        "          Errors:\n            - Expected a <class 'int'>\n            - Expected a <class 'tuple'>\n"
        "    - Expected a <class 'NoneType'>\n"
    )
    found = leaves(message)
    assert [(leaf.key, leaf.class_path) for leaf in found] == [("data.size", "p.C")] * 2
    assert [leaf.text for leaf in found] == ["Expected a <class 'int'>", "Expected a <class 'tuple'>"]
    assert leaves("") == []


def test_options_of_a_class_reach_into_their_parts():
    assert {"root", "crop_size", "preprocessing.resize"} <= set(class_options("src.data.Sample"))
