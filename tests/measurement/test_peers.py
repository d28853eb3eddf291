import functools
import importlib.util

import pytest

from src.measurement import peers
from src.measurement.options import Options
from src.measurement.peers import build, check_installed
from src.models import FCNHead, Segmenter, SwinTransformer, UPerNetDecoder

SMALL = {"embed_dim": 12, "depths": (1, 1), "num_heads": (1, 2)}
OPTIONS = Options(model="nano", size=(32, 48), num_classes=3)
HEAD = functools.partial(FCNHead, level=1, channels=8)


def segmenter(auxiliary=HEAD, **swin):
    decoder = functools.partial(UPerNetDecoder, channels=8)
    return Segmenter(SwinTransformer(**SMALL | swin), decoder, auxiliary, num_classes=3)


@pytest.mark.parametrize(
    ("peer", "package"),
    [("transformers", "transformers"), ("torchvision", "torchvision"), ("smp", "segmentation-models-pytorch")],
)
def test_a_library_that_is_not_there_is_said_with_its_command(peer, package, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ValueError, match=f"--against {peer} .* not installed: pip install {package};"):
        check_installed(Options(against=(peer,)))
    check_installed(Options(against=()))


@pytest.mark.parametrize(
    ("model", "said"),
    [
        (lambda: segmenter(auxiliary=None), "needs an auxiliary FCNHead, got none"),
        (lambda: segmenter(window_size=(7, 5)), r"needs square windows, .* got \[\(7, 5\)\]"),
        (lambda: segmenter(padded_keys="mask"), "padded_keys mask"),
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
