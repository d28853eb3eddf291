import copy
import json

import pytest
import torch

from src.models import Segmenter
from src.models.settings import build, plain
from src.models.swin import SwinTransformer
from src.models.swin_v2 import SwinTransformerV2
from tests.models.random_weights import randomise
from tests.models.toys import PlainDecoder, ToyEncoder

SMALL = {"embed_dim": 8, "depths": (2, 2, 2, 2), "num_heads": (1, 2, 2, 4)}
OWN = [(7, 7), (3, 5), (4, 4), (8, 8)]
"""The windows of the stages."""


def small(**options):
    torch.manual_seed(0)
    return randomise(SwinTransformerV2(**(SMALL | options)))


def settings_with(encoder):
    """What a checkpoint holds of a segmenter with an encoder."""
    return json.loads(json.dumps(plain(Segmenter(encoder, PlainDecoder, num_classes=3))))


def windows_of(model):
    return [block.attn.position_bias.pretrained_window for stage in model.layers for block in stage.blocks[:1]]


@pytest.mark.parametrize(
    ("pretrained_window_size", "expected"),
    [
        (None, OWN),
        (0, OWN),
        (12, [(12, 12)] * 4),
        ((12, 6), [(12, 6)] * 4),
        ((12, 12, 12, 6), [(12, 12), (12, 12), (12, 12), (6, 6)]),
        ((0, (0, 0), [2, 3], 6), [(7, 7), (3, 5), (2, 3), (6, 6)]),
    ],
)
def test_pretrained_windows_are_given_as_windows_are(pretrained_window_size, expected):
    model = small(window_size=((7, 7), (3, 5), 4, 8), pretrained_window_size=pretrained_window_size)
    for stage, window, known in zip(model.layers, OWN, expected, strict=True):
        for block in stage.blocks:
            assert block.attn.window == block.attn.position_bias.window == window
            assert block.attn.position_bias.pretrained_window == known
        assert stage.blocks[1].attn.shift == (window[0] // 2, window[1] // 2)


@torch.no_grad()
def test_the_stages_own_window_is_the_pretrained_one_unless_said():
    images = torch.randn(1, 3, 60, 75)
    features = small(window_size=5, pretrained_window_size=5)(images)
    assert all(torch.equal(a, b) for a, b in zip(features, small(window_size=5)(images), strict=True))


@pytest.mark.parametrize("pretrained_window_size", [-1, (12, 12, 12), (12, 12, 12, (1, 2, 3)), ()])
def test_unusable_pretrained_windows_are_refused(pretrained_window_size):
    message = r"model\.model\.encoder\.pretrained_window_size must be a whole number from 0 up, .*; .*\.$"
    with pytest.raises(ValueError, match=message):
        SwinTransformerV2(**SMALL, pretrained_window_size=pretrained_window_size)


@torch.no_grad()
def test_windows_told_later_act_as_those_given_at_the_start():
    images = torch.randn(1, 3, 60, 75)
    told, given = (small(window_size=5, pretrained_window_size=number) for number in (None, (12, 12, 0, 6)))
    before = told(images)
    told.set_pretrained_windows([(12, 12), (12, 12), (0, 0), (6, 6)])
    assert all(torch.equal(a, b) for a, b in zip(told(images), given(images), strict=True))
    assert not torch.allclose(told(images)[0], before[0])
    again = build(plain(told.settings))
    assert windows_of(again) == windows_of(told) == [(12, 12), (12, 12), (5, 5), (6, 6)]


@pytest.mark.parametrize("windows", [[(3, 3)] * 3, [(3, 3)] * 5, [(3, 0)] * 4, [(3, 3, 3)] * 4])
def test_windows_that_cannot_be_are_refused_when_told_later(windows):
    with pytest.raises(ValueError, match=r"pretrained_window must be|argument 2 is"):
        small().set_pretrained_windows(windows)


@pytest.mark.parametrize("recorded", [12, (12, 6), (12, 12, 12, 6), ((12, 6), 12, 0, (3, 4))])
@pytest.mark.parametrize("own", [None, 0, 9, (12, 12, 12, 5)])
def test_recorded_windows_are_taken_whatever_the_config_gave(recorded, own):
    saved = settings_with(small(pretrained_window_size=recorded))
    model = small(pretrained_window_size=own)
    model.take_pretrained_windows(saved)
    assert windows_of(model) == windows_of(small(pretrained_window_size=recorded))
    assert settings_with(model)["init_args"] == saved["init_args"]


def test_windows_that_weights_told_are_taken():
    first = small(pretrained_window_size=9)
    first.set_pretrained_windows([(12, 12), (12, 12), (12, 12), (6, 6)])
    again = small(pretrained_window_size=9)
    again.take_pretrained_windows(settings_with(first))
    assert windows_of(again) == [(12, 12), (12, 12), (12, 12), (6, 6)]
    assert settings_with(again) == settings_with(first)


@pytest.mark.parametrize(
    "encoder",
    [
        lambda: small(),
        lambda: SwinTransformer(**SMALL),
        ToyEncoder,
        lambda: SwinTransformerV2(8, (1, 1), (1, 1), pretrained_window_size=((3, 3), (4, 4))),
    ],
)
def test_settings_that_tell_no_windows_for_it_change_nothing(encoder):
    model = small(pretrained_window_size=9)
    before = settings_with(model)
    model.take_pretrained_windows(settings_with(encoder()))
    model.take_pretrained_windows({"class_path": "their.Model", "init_args": {}})
    assert settings_with(model) == before
    assert windows_of(model) == [(9, 9)] * 4


@torch.no_grad()
def test_a_compiled_encoder_tells_its_windows_and_takes_others():
    torch.compiler.reset()
    images = torch.randn(1, 3, 20, 25)
    model = SwinTransformerV2(4, (1, 1), (1, 1), window_size=3)
    randomise(model)
    expected = copy.deepcopy(model)
    expected.set_pretrained_windows([(6, 6)] * 2)
    compiled = torch.compile(model, backend="eager")
    before = compiled(images)[0]
    whole = Segmenter(torch.compile(copy.deepcopy(expected), backend="eager"), PlainDecoder, num_classes=3)
    compiled.take_pretrained_windows(whole.settings)
    assert plain(compiled)["init_args"]["pretrained_window_size"] == [[6, 6]] * 2
    assert torch.equal(compiled(images)[0], expected(images)[0])
    assert not torch.allclose(before, expected(images)[0])
