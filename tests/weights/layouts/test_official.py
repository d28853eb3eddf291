import pytest
import torch

from src.models.swin import SwinTransformer
from src.weights.layouts.buffers import buffers
from src.weights.layouts.recognise import kind_of, layout_named
from tests.models.random_weights import randomise
from tests.weights.layouts.microsoft_names import DEPTHS, ENDS, WINDOWS, encoder, encoder_names, microsoft
from tests.weights.layouts.reading import assert_round_trip, read, segmenter_with


def segmenter(tiny_segmenter):
    return randomise(tiny_segmenter(num_classes=5, depths=DEPTHS, window_size=7))


@pytest.mark.parametrize("prefix", ["", "module.", "model."])
@torch.no_grad()
def test_a_segmenter_in_the_official_names(prefix, tiny_segmenter):
    model = segmenter(tiny_segmenter)
    layout = layout_named("official", "segmentor", 1)
    written, left_over = layout.to_theirs(model.state_dict(), "segmentor")
    assert left_over == []
    names = {f"backbone.{name}" for name in encoder_names(1)}
    names |= {f"backbone.norm{i}.{end}" for i in range(4) for end in ENDS}
    assert {name for name in written | buffers("official", model.state_dict(), WINDOWS) if name[:4] == "back"} == names
    assert {"decode_head.psp_modules.3.1.bn.running_var", "auxiliary_head.convs.0.conv.weight"} < written.keys()
    found, state, left_over = read({prefix + name: value for name, value in written.items()})
    assert (found.layout, found.prefix, found.root, left_over) == (layout, prefix, "backbone.", [])
    assert_round_trip(written, found, state)
    images = torch.randn(1, 3, 50, 70)
    options = {"embed_dim": 8, "depths": DEPTHS, "num_heads": (1, 1, 2, 2), "window_size": 7}
    loaded = segmenter_with(state, SwinTransformer(**options), 5, channels=8, auxiliary_channels=8)
    assert torch.equal(loaded(images).logits, model(images).logits)


def test_an_absolute_embedding_is_a_row_in_one_and_a_map_in_the_other():
    state = {f"encoder.{name}": value for name, value in encoder(absolute_pos_embed=(3, 3)).state_dict().items()}
    rows, _ = layout_named("microsoft", "encoder", 1).to_theirs(state, "encoder")
    maps, _ = layout_named("official", "encoder", 1).to_theirs(state, "encoder")
    assert rows["absolute_pos_embed"].shape == (1, 9, 8)
    assert torch.equal(rows["absolute_pos_embed"][0, 5], state["encoder.absolute_pos_embed"][0, :, 1, 2])
    assert maps["absolute_pos_embed"] is state["encoder.absolute_pos_embed"]
    for name in ("microsoft", "official"):  # a classifier's, put into a segmenter
        ours, _ = layout_named(name, "encoder", 1).to_ours(rows, "")
        assert torch.equal(ours["encoder.absolute_pos_embed"], state["encoder.absolute_pos_embed"].view(1, 8, 1, 9))


def test_an_encoder_of_another_model_with_three_outputs_is_official():
    state = {name: value for name, value in microsoft().items() if not name.startswith(("norm.", "head"))}
    state |= {f"norm{i}.weight": torch.ones(8 * 2**i) for i in (1, 2, 3)}
    found, ours, left_over = read({f"detector.backbone.{name}": value for name, value in state.items()})
    assert (found.layout.name, found.prefix, found.root) == ("official", "detector.", "backbone.")
    assert (kind_of(ours), left_over) == ("encoder", [])


def test_what_another_decoder_has_is_left_over():
    state = {f"backbone.{name}": value for name, value in microsoft().items() if not name.startswith(("norm", "head"))}
    state |= {f"backbone.norm{i}.weight": torch.ones(8 * 2**i) for i in range(4)}
    state |= {
        "decode_head.conv_seg.weight": torch.zeros(5, 8, 1, 1),
        "decode_head.linear_c1.proj.weight": torch.ones(8, 8),
    }
    _, ours, left_over = read(state)
    assert left_over == ["decode_head.linear_c1.proj.weight"]
    assert kind_of(ours) == "segmentor"
