import pytest

from src.measurement.described_model import model_of_configs, stacked
from src.measurement.options import Options
from src.measurement.ours import build_model
from src.models import SwinTransformer, SwinTransformerV2


def test_configs_are_stacked_and_the_last_one_wins():
    model = build_model(Options(configs=("ade20k.yaml", "model/nano.yaml"), num_classes=4))
    assert isinstance(model.encoder, SwinTransformer)
    assert model.feature_specs[0].channels == 32
    assert model.decoder.settings["init_args"]["channels"] == 64
    assert model.num_classes == 4


def test_there_is_no_dropout_left():
    model = build_model(Options(configs=("ade20k.yaml", "model/nano.yaml")))
    assert model.encoder.settings["init_args"]["drop_path_rate"] == 0
    assert model.decoder.dropout.p == model.auxiliary.dropout.p == 0


def test_another_class_does_not_get_the_first_ones_arguments(tmp_path):
    nano = (
        "model: {init_args: {model: {init_args: {encoder: {init_args: {embed_dim: 12, depths: [1], num_heads: [1]}}}}}}"
    )
    (tmp_path / "nano.yaml").write_text(nano)
    (tmp_path / "level.yaml").write_text("model: {init_args: {model: {init_args: {auxiliary: null}}}}")
    names = ("ade20k.yaml", "model/tiny_v2.yaml", str(tmp_path / "nano.yaml"), str(tmp_path / "level.yaml"))
    model = model_of_configs(names, 3)
    assert isinstance(model.encoder, SwinTransformerV2)
    assert model.auxiliary is None
    below = {"class_path": "A", "init_args": {"a": 1, "b": 2}}
    assert stacked(below, {"class_path": "B", "init_args": {"c": 3}}) == {"class_path": "B", "init_args": {"c": 3}}
    assert stacked(below, {"init_args": {"a": 5}}) == {"class_path": "A", "init_args": {"a": 5, "b": 2}}


def test_values_of_other_places_are_followed(tmp_path):
    text = "width: 24\nmodel: {init_args: {model: {init_args: {decoder: {init_args: {channels: '${width}'}}}}}}"
    (tmp_path / "wide.yaml").write_text(text)
    model = model_of_configs(("ade20k.yaml", "model/nano.yaml", str(tmp_path / "wide.yaml")), 3)
    assert model.decoder.settings["init_args"]["channels"] == 24


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("trainer: {max_steps: 3}", "--config must describe a model with an encoder and a decoder"),
        ("model: {init_args: {model: {init_args: {encoder: {class_path: src.models.Absent}, decoder: src.models.X}}}}",
         "--config must describe a model that can be built, .*src.models.Absent"),
        ("model: {init_args: {model: {init_args: {encoder: {init_args: {}}, decoder: src.models.X}}}}",
         "add its class_path"),
        ("model: {init_args: {model: {init_args: {encoder: '${absent.one}'}}}}", "must be complete without flags"),
    ],
)  # fmt: skip
def test_configs_without_a_model_are_refused(tmp_path, text, said):
    (tmp_path / "a.yaml").write_text(text)
    with pytest.raises(ValueError, match=said):
        model_of_configs((str(tmp_path / "a.yaml"),), 3)


def test_a_config_that_is_not_there_is_said():
    with pytest.raises(FileNotFoundError, match="--config must be a YAML file or one of"):
        model_of_configs(("absent.yaml",), 3)
