import pytest
import torch

from src.models import Segmenter, SmpEncoder, SwinTransformer, UPerNetDecoder
from src.models.smp_decoders import SmpUnet
from src.weights.layouts.recognise import kind_of, layout_named, recognise
from tests.models.toys import PlainDecoder, ToyEncoder
from tests.weights.layouts.reading import assert_round_trip, read


@pytest.mark.parametrize("prefix", ["", "model."])
def test_our_own_names(prefix, tiny_segmenter):
    state = tiny_segmenter().state_dict()
    found, ours, left_over = read({prefix + name: value for name, value in state.items()})
    assert (found.layout.name, found.prefix, found.root, left_over) == ("toolkit", prefix, "encoder.", [])
    assert kind_of(ours) == "segmentor"
    assert list(ours) == list(state)
    assert_round_trip(state, found, ours)
    assert found.layout is layout_named("toolkit", "segmentor", 1)


def test_the_weights_of_an_encoder_of_ours_alone(tiny_segmenter):
    state = tiny_segmenter().encoder.state_dict()
    found, ours, left_over = read(state)
    assert (found.layout.name, found.place, kind_of(ours), left_over) == ("toolkit", "", "encoder", [])
    assert list(ours) == [f"encoder.{name}" for name in state]


def foreign(encoder, decoder):
    return Segmenter(encoder, decoder, num_classes=3).state_dict()


def swin():
    return SwinTransformer(8, (1, 1, 1, 1), (1, 1, 2, 2), window_size=4)


@pytest.mark.parametrize("prefix", ["", "model."])
@pytest.mark.parametrize(
    ("encoder", "decoder"),
    [
        (ToyEncoder, UPerNetDecoder),
        (ToyEncoder, PlainDecoder),
        (lambda: SmpEncoder("resnet18", weights=None), UPerNetDecoder),
        (lambda: SmpEncoder("resnet18", weights=None), SmpUnet),
        (swin, PlainDecoder),
        (swin, SmpUnet),
    ],
)
def test_our_names_with_parts_of_others(prefix, encoder, decoder):
    state = foreign(encoder(), decoder)
    found, ours, left_over = read({prefix + name: value for name, value in state.items()})
    assert (found.layout.name, found.prefix, found.root, left_over) == ("toolkit", prefix, "encoder.", [])
    assert kind_of(ours) == "segmentor"
    assert ours.keys() == state.keys()
    assert all(torch.equal(ours[name], value) for name, value in state.items())


def test_timms_swin_within_a_model_of_ours_is_ours():
    names = [
        f"encoder.encoder.model.{name}" for name in ("patch_embed.proj.weight", "layers_0.blocks.0.attn.qkv.weight")
    ]
    found = recognise([*names, "decoder.conv_seg.weight"])
    assert (found.layout.name, found.place) == ("toolkit", "encoder.")


def test_buffers_of_a_foreign_encoder_are_kept():
    state = foreign(ToyEncoder(), UPerNetDecoder) | {"encoder.attn_mask": torch.zeros(1)}
    _, ours, left_over = read(state)
    assert "encoder.attn_mask" in ours
    assert left_over == []
