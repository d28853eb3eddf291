"""Ours and the peers: equal outputs and losses from the same weights, and what is done around them."""

from dataclasses import replace

import pytest
import torch

from src.measurement.comparison import relative_difference
from src.measurement.inputs import draw
from src.measurement.options import Options
from src.measurement.ours import build_model
from src.measurement.peers import build, names

pytest.importorskip("transformers")

OPTIONS = Options(model="nano", size=(32, 48), num_classes=7, threads=1, layout="contiguous")
PEERS = ("transformers", "transformers, tuned")


@pytest.fixture(scope="module")
def model():
    return build_model(OPTIONS)


@pytest.fixture(scope="module")
def inputs():
    return draw(OPTIONS)


def result(name, row, model, inputs, options=OPTIONS):
    contender = build(name, options, model)
    contender.prepare(row)
    return contender.run(row, inputs)


@pytest.mark.parametrize("peer", PEERS)
@pytest.mark.parametrize("row", ["full_logits", "training"])
@pytest.mark.parametrize("layout", ["contiguous", "channels_last"])
def test_scores_and_losses_equal_transformers(row, peer, layout, model, inputs):
    ours = result("ours, exact", row, model, inputs)
    theirs = result(peer, row, model, inputs, replace(OPTIONS, layout=layout))
    assert theirs.abs().max() > 0
    assert relative_difference(ours, theirs) < 1e-5


@pytest.mark.parametrize("row", ["label_map", "evaluation"])
def test_labels_equal_those_of_transformers_tuned(row, model, inputs):
    ours = result("ours, exact", row, model, inputs)
    assert (ours == result("transformers, tuned", row, model, inputs)).double().mean() > 0.999
    assert ours.shape == (inputs.labels.shape if row == "evaluation" else (1, 32, 48))


def test_scores_at_stride_4_and_features_equal_transformers(model, inputs):
    for row in ("logits", "features"):
        ours = result("ours, exact", row, model, inputs)
        assert relative_difference(ours, result("transformers, tuned", row, model, inputs)) < 1e-5
    assert "transformers" not in names(OPTIONS, "logits")


def test_an_image_evaluated_is_counted_once(model, inputs):
    for name in ("ours, exact", *PEERS):
        contender = build(name, OPTIONS, model)
        contender.prepare("evaluation")
        contender.run("evaluation", inputs)
        confusion = contender.task.confusion if name.startswith("ours") else contender.confusion
        assert confusion.compute().sum() == (inputs.labels != 255).sum()


@pytest.mark.parametrize("name", ["ours, exact", *PEERS])
def test_a_training_step_changes_weights_and_begins_without_gradients(name, model, inputs):
    contender = build(name, OPTIONS, model)
    before = [parameter.detach().clone() for parameter in contender.model.parameters()]
    contender.prepare("training")
    parameters = list(contender.model.parameters())
    assert all(torch.equal(old, new) for old, new in zip(before, parameters, strict=True))
    assert all(parameter.grad is None for parameter in parameters)
    assert len(contender.optimizer.state) == len(parameters)
    losses = [contender.run("training", inputs).item() for _ in range(3)]
    assert losses[-1] < losses[0]
    assert all(parameter.grad is None for parameter in parameters)
    contender.finish("training")
    assert contender.optimizer is None


def test_the_model_that_is_given_stays_as_it_is(model, inputs):
    before = {name: value.clone() for name, value in model.state_dict().items()}
    for name in ("ours, exact", *PEERS):
        result(name, "training", model, inputs)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


@pytest.mark.parametrize("precision", ["bfloat16", "float16"])
def test_autocast_computes_in_half_precision(precision, model, inputs):
    options = replace(OPTIONS, precision=precision)
    ours = result("ours, exact", "logits", model, inputs, options)
    assert ours.dtype == getattr(torch, precision)
    assert relative_difference(ours, result("ours, exact", "logits", model, inputs)) > 1e-6


def test_torchvision_has_our_features_where_no_window_covers_a_map(inputs):
    options = replace(OPTIONS, size=(256, 288), against=("torchvision",))
    model, large = build_model(options), draw(options)
    theirs = build("torchvision", options, model)
    assert theirs.same_function
    theirs.prepare("features")
    ours = result("ours, exact", "features", model, large, options)
    assert relative_difference(ours, theirs.run("features", large)) < 1e-5
    assert not build("torchvision", OPTIONS, model).same_function


def test_smp_is_another_function_of_the_same_shape(model, inputs):
    pytest.importorskip("timm")
    options = replace(OPTIONS, size=(32, 64))
    contender, drawn = build("smp", options, model), draw(options)
    assert not contender.same_function
    contender.prepare("label_map")
    assert contender.run("label_map", drawn).shape == (1, 32, 64)
    contender.prepare("training")
    assert contender.run("training", drawn).isfinite()


def test_fast_numerics_are_set_in_a_copy_and_stay_close(model, inputs):
    fast = build("ours, fast", OPTIONS, model)
    assert {module.numerics for module in fast.model.modules() if hasattr(module, "numerics")} == {"fast"}
    assert {module.numerics for module in model.modules() if hasattr(module, "numerics")} == {"exact"}
    fast.prepare("logits")
    assert relative_difference(fast.run("logits", inputs), result("ours, exact", "logits", model, inputs)) < 1e-4


def test_each_library_takes_part_twice_and_ours_first():
    assert names(replace(OPTIONS, against=("transformers",), numerics="both")) == ["ours, exact", "ours, fast", *PEERS]
    assert names(replace(OPTIONS, against=())) == ["ours, exact"]
