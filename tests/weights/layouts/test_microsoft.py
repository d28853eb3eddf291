import pytest
import torch

from src.models.swin import SwinTransformer
from src.models.swin_v2 import SwinTransformerV2
from src.weights.layouts.buffers import buffers
from src.weights.layouts.recognise import kind_of, layout_named
from tests.weights.layouts.microsoft_names import ENDS, SMALL, WINDOWS, encoder, encoder_names, microsoft
from tests.weights.layouts.reading import assert_round_trip, encoder_with, read


@pytest.mark.parametrize("version", [1, 2])
def test_a_classifier_of_microsoft_comes_back_as_it_was(version):
    state = microsoft(version)
    found, ours, left_over = read(state)
    assert (found.layout.name, found.place, kind_of(ours), left_over) == ("microsoft", "", "classifier", [])
    assert ours["classifier.head.weight"] is state["head.weight"]
    assert_round_trip(state, found, ours, ("relative_position_index", "attn_mask", "relative_coords_table"))


@pytest.mark.parametrize("version", [1, 2])
@torch.no_grad()
def test_a_classifier_gives_an_encoder_all_but_its_output_norms(version):
    _, state, _ = read(microsoft(version))
    fresh = (SwinTransformer, SwinTransformerV2)[version - 1](**SMALL, window_size=7)
    loaded, images = encoder_with(state, fresh), torch.randn(1, 3, 64, 96)
    expected = encoder(version)
    for i in range(4):  # as built, so that what comes before them is compared
        expected.get_submodule(f"norm{i}").load_state_dict(loaded.get_submodule(f"norm{i}").state_dict())
    for level, other in zip(loaded(images), expected(images), strict=True):
        assert torch.equal(level, other)
    own = {name.removeprefix("encoder.") for name in state if name.startswith("encoder.")}
    assert loaded.state_dict().keys() - own == {f"norm{i}.{end}" for i in range(4) for end in ENDS}


@pytest.mark.parametrize("version", [1, 2])
def test_microsofts_code_finds_every_name(version):
    state = {f"encoder.{name}": value for name, value in encoder(version).state_dict().items() if name[:4] != "norm"}
    state |= {"classifier.norm.weight": torch.ones(64), "classifier.norm.bias": torch.ones(64)}
    state |= {"classifier.head.weight": torch.ones(7, 64), "classifier.head.bias": torch.ones(7)}
    written, left_over = layout_named("microsoft", "classifier", version).to_theirs(state, "classifier")
    written |= buffers("microsoft", state, WINDOWS, (224, 224))
    assert left_over == []
    around = {f"{part}.{end}" for part in ("norm", "head") for end in ENDS}
    assert written.keys() == encoder_names(version) | around | {"layers.0.blocks.1.attn_mask"}


def test_a_model_of_masked_images_is_found_below_its_prefix():
    state = {f"encoder.{name}": value for name, value in microsoft().items() if not name.startswith("head")}
    state |= {"encoder.mask_token": torch.zeros(1, 1, 8), "decoder.0.weight": torch.zeros(3, 64, 1, 1)}
    found, ours, left_over = read(state)
    assert (found.layout.name, found.prefix, found.root) == ("microsoft", "encoder.", "")
    assert (kind_of(ours), left_over) == ("encoder", ["mask_token"])
