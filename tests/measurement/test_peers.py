import functools
import importlib.util

import pytest

from src.measurement import peers
from src.measurement.measure import measure
from src.measurement.options import ROWS, Options
from src.measurement.peers import build, check_peers, names
from src.models import FCNHead, Segmenter, SwinTransformer, UPerNetDecoder

SMALL = {"embed_dim": 12, "depths": (1, 1), "num_heads": (1, 2)}
OPTIONS = Options(model="nano", size=(32, 48), num_classes=3)
HEAD = functools.partial(FCNHead, level=1, channels=8)


DECODER = functools.partial(UPerNetDecoder, channels=8)
NORMED = functools.partial(UPerNetDecoder, channels=8, norm="group")


def segmenter(auxiliary=HEAD, decoder=DECODER, **swin):
    return Segmenter(SwinTransformer(**SMALL | swin), decoder, auxiliary, num_classes=3)


@pytest.mark.parametrize(
    ("peer", "package"),
    [("transformers", "transformers"), ("torchvision", "torchvision"), ("smp", "segmentation-models-pytorch")],
)
def test_a_library_that_is_not_there_is_said_with_its_command(peer, package, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ValueError, match=f"--against {peer} .* not installed: pip install {package};"):
        check_peers(Options(against=(peer,)))
    check_peers(Options(against=()))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            Options(against=("torchvision",), rows=("label_map", "label_map_memory")),
            "--only must name a row that torchvision has, of features, got label_map, label_map_memory; leave",
        ),
        (
            Options(against=("transformers", "smp"), rows=("features",)),
            "a row that smp has, of full_logits, label_map, training, got features; leave smp",
        ),
        (Options(against=("smp",), size=(33, 64)), "--size must be a multiple of 32 for smp, got 33x64; leave smp out"),
    ],
)
def test_a_library_that_has_nothing_of_what_is_measured_is_refused(options, said):
    pytest.importorskip("segmentation_models_pytorch")
    with pytest.raises(ValueError, match=said):
        check_peers(options)
    with pytest.raises(ValueError, match=said):
        measure(options)


def test_a_name_that_nobody_has_is_refused():
    with pytest.raises(ValueError, match=r"name must be one of ours, exact, transformers, .* got ours, quick"):
        build("ours, quick", OPTIONS, segmenter())


def test_who_has_a_row():
    options = Options(against=("transformers", "torchvision", "smp"), memory_size=(100, 100))
    theirs = {row: [name for name in names(options, row) if not name.startswith("ours")] for row in ROWS}
    both = ["transformers", "transformers, tuned"]
    assert theirs["features"] == ["transformers, tuned", "torchvision", "torchvision, tuned"]
    assert theirs["logits"] == ["transformers, tuned"]
    assert theirs["evaluation"] == both
    assert theirs["label_map"] == theirs["training_memory"] == [*both, "smp", "smp, tuned"]
    assert theirs["label_map_memory"] == both  # smp does not take 100 x 100


@pytest.mark.parametrize(
    ("model", "said"),
    [
        (lambda: segmenter(auxiliary=None), "needs an auxiliary FCNHead, got none"),
        (lambda: segmenter(window_size=(7, 5)), r"needs square windows, .* got \[\(7, 5\)\]"),
        (lambda: segmenter(padded_keys="mask"), "padded_keys mask"),
        (lambda: segmenter(patch_size=2), "must have patch_size 4, got 2"),
        (lambda: segmenter(in_channels=1), "must have in_channels 3, got 1"),
        (lambda: segmenter(shift_covered=False), "must have shift_covered True, got False"),
        (lambda: segmenter(absolute_pos_embed=(8, 12)), r"must have absolute_pos_embed None, got \("),
        (lambda: segmenter(decoder=NORMED), "names of one side alone, such as .*decode_head"),
    ],
)
def test_a_model_that_transformers_does_not_have_is_refused(model, said):
    pytest.importorskip("transformers")
    with pytest.raises(ValueError, match=said):
        build("transformers", OPTIONS, model())


def test_another_encoder_is_refused(monkeypatch):
    pytest.importorskip("transformers")
    model = segmenter()
    model.encoder.__class__ = type("Other", (type(model.encoder).__mro__[1],), {})
    for peer, said in (("transformers", "SwinTransformer with a UPerNetDecoder, got Other"), ("torchvision", "Other")):
        with pytest.raises(ValueError, match=said):
            peers.build(peer, OPTIONS, model)
