import pytest
import torch
from safetensors.torch import load_file, save_file

from src.inference import resize_logits
from src.models.swin import SwinTransformer
from src.models.swin_v2 import SwinTransformerV2
from src.weights.layouts.recognise import kind_of, layout_named, recognise
from tests.models.random_weights import randomise
from tests.weights.layouts.reading import (
    SMALL,
    assert_round_trip,
    assert_same,
    encoder_with,
    random_weights,
    read,
    scores,
    segmenter_with,
)

transformers = pytest.importorskip("transformers")

STAGES = ["stage1", "stage2", "stage3", "stage4"]
CONFIG = {name: value if isinstance(value, int) else list(value) for name, value in SMALL.items()}


def swin_config(**options):
    return transformers.SwinConfig(**CONFIG | {"window_size": 7, "num_labels": 5, "out_features": STAGES} | options)


def swin_v2_config(**options):
    return transformers.Swinv2Config(
        **CONFIG | {"image_size": 256, "window_size": 8, "num_labels": 5, "out_features": STAGES} | options
    )


def upernet_config():
    return transformers.UperNetConfig(
        backbone_config=swin_config(), hidden_size=32, auxiliary_in_channels=96, auxiliary_channels=16, num_labels=5
    )


def upernet():
    return random_weights(transformers.UperNetForSemanticSegmentation(upernet_config()))


def saved(peer, folder):
    peer.save_pretrained(folder)
    return load_file(folder / "model.safetensors")


PEERS = {
    "classifier": lambda: transformers.SwinForImageClassification(swin_config()),
    "embedded": lambda: transformers.SwinForImageClassification(swin_config(use_absolute_embeddings=True)),
    "model": lambda: transformers.SwinModel(swin_config()),
    "backbone": lambda: transformers.models.swin.SwinBackbone(swin_config()),
    "upernet": lambda: transformers.UperNetForSemanticSegmentation(upernet_config()),
    "classifier 2": lambda: transformers.Swinv2ForImageClassification(swin_v2_config()),
    "model 2": lambda: transformers.Swinv2Model(swin_v2_config()),
    "backbone 2": lambda: transformers.Swinv2Backbone(swin_v2_config()),
}


@pytest.mark.parametrize("name", PEERS)
def test_a_saved_folder_comes_back_as_it_was(name, tmp_path):
    theirs = random_weights(PEERS[name]())
    state = saved(theirs, tmp_path)
    found, ours, left_over = read(state)
    assert (found.layout.name, found.layout.is_alias, left_over) == ("transformers", False, [])
    assert_round_trip(state, found, ours)
    written, _ = found.layout.to_theirs(ours, kind_of(ours))
    save_file(written, tmp_path / "model.safetensors", metadata={"format": "pt"})
    fresh, told = type(theirs).from_pretrained(tmp_path, output_loading_info=True)
    assert not any(told.values()), told
    for key, value in theirs.state_dict().items():
        assert torch.equal(fresh.state_dict()[key], value), key


@pytest.mark.parametrize("name", PEERS)
def test_names_in_memory_say_the_same_as_those_saved(name, tmp_path):
    theirs = random_weights(PEERS[name]())
    found, ours, left_over = read(theirs.state_dict())
    _, expected, _ = read(saved(theirs, tmp_path))
    assert (found.layout.name, left_over) == ("transformers", [])
    assert ours.keys() == expected.keys()
    assert all(torch.equal(ours[key], value) for key, value in expected.items())


# unlike its backbone, its classifier has no shift where a window covers the map, and no window larger than the map
@pytest.mark.parametrize("size", [(224, 224), (230, 301)])
@torch.no_grad()
def test_scores_equal_transformers(size, tmp_path):
    theirs = random_weights(PEERS["classifier"]())
    _, state, _ = read(saved(theirs, tmp_path))
    assert kind_of(state) == "classifier"
    images = torch.randn(2, 3, *size)
    assert_same(scores(state, SwinTransformer(**SMALL, shift_covered=False), images), theirs(images).logits)


@torch.no_grad()
def test_scores_with_an_absolute_embedding_equal_transformers(tmp_path):
    theirs = random_weights(PEERS["embedded"]())
    _, state, _ = read(saved(theirs, tmp_path))
    state["encoder.absolute_pos_embed"] = state["encoder.absolute_pos_embed"].view(1, 24, 56, 56)
    images = torch.randn(1, 3, 224, 224)
    encoder = SwinTransformer(**SMALL, absolute_pos_embed=(56, 56), shift_covered=False)
    assert_same(scores(state, encoder, images), theirs(images).logits)


@torch.no_grad()
def test_scores_of_version_2_equal_transformers(tmp_path):
    theirs = random_weights(PEERS["classifier 2"]())
    found, state, _ = read(saved(theirs, tmp_path))
    assert found.layout.version == 2
    images = torch.randn(1, 3, 256, 256)
    assert_same(scores(state, SwinTransformerV2(**SMALL), images), theirs(images).logits)


@pytest.mark.parametrize("size", [(224, 224), (97, 131)])
@torch.no_grad()
def test_features_equal_the_backbones(size, tmp_path):
    theirs = random_weights(PEERS["backbone"]())
    _, state, _ = read(saved(theirs, tmp_path))
    images = torch.randn(1, 3, *size)
    ours = encoder_with(state, SwinTransformer(**SMALL))
    for level, expected in zip(ours(images), theirs(images).feature_maps, strict=True):
        assert_same(level, expected)


@pytest.mark.parametrize("size", [(224, 224), (97, 131), (37, 53)])
@torch.no_grad()
def test_logits_equal_upernets(size, tmp_path):
    theirs = upernet()
    found, state, left_over = read(saved(theirs, tmp_path))
    assert (found.place, left_over, kind_of(state)) == ("backbone.", [], "segmentor")
    model = segmenter_with(state, SwinTransformer(**SMALL), 5, auxiliary_channels=16)
    images = torch.randn(1, 3, *size)
    assert_same(resize_logits(model(images).logits, size), theirs(images).logits)


@torch.no_grad()
def test_transformers_loads_a_segmenter_of_ours(tmp_path):
    _, like, _ = read(upernet().state_dict())
    model = randomise(segmenter_with(like, SwinTransformer(**SMALL), 5, auxiliary_channels=16))
    written, left_over = layout_named("transformers", "segmentor", 1).to_theirs(model.state_dict(), "segmentor")
    assert left_over == []
    upernet_config().save_pretrained(tmp_path)
    save_file(written, tmp_path / "model.safetensors", metadata={"format": "pt"})
    theirs, told = transformers.UperNetForSemanticSegmentation.from_pretrained(tmp_path, output_loading_info=True)
    assert not any(told.values()), told
    images = torch.randn(1, 3, 97, 131)
    assert_same(resize_logits(model(images).logits, (97, 131)), theirs.eval()(images).logits)


def test_the_decoder_of_masked_image_modelling_is_left_over(tmp_path):
    theirs = transformers.SwinForMaskedImageModeling(swin_config())
    found, state, left_over = read(saved(theirs, tmp_path))
    assert (found.place, kind_of(state)) == ("swin.", "encoder")
    assert sorted(left_over) == ["decoder.0.bias", "decoder.0.weight", "swin.embeddings.mask_token"]


def test_a_missing_query_leaves_key_and_value_over(tmp_path):
    state = saved(upernet(), tmp_path)
    begin = "backbone.encoder.layers.1.blocks.0.attention.self."
    for end in ("weight", "bias"):
        del state[f"{begin}query.{end}"]
    _, ours, left_over = read(state)
    assert sorted(left_over) == [f"{begin}{part}.{end}" for part in ("key", "value") for end in ("bias", "weight")]
    assert "encoder.layers.1.blocks.0.attn.qkv.weight" not in ours
    assert "encoder.layers.1.blocks.1.attn.qkv.weight" in ours


def test_queries_and_keys_of_several_shapes_are_told(tmp_path):
    state = saved(upernet(), tmp_path)
    name = "backbone.encoder.layers.0.blocks.0.attention.self.key.weight"
    state[name] = state[name][:12]
    with pytest.raises(ValueError, match=r"query.weight and .*key.weight and .*value.weight must be of one shape, got"):
        read(state)


def test_version_2_has_no_place_for_a_segmenter():
    with pytest.raises(ValueError, match=r"for a segmentor \(version 2\); it holds encoder \(version 1\)"):
        layout_named("transformers", "segmentor", 2)


def test_upernet_on_version_2_is_read():
    config = upernet_config()
    config.backbone_config = swin_v2_config()
    theirs = random_weights(transformers.UperNetForSemanticSegmentation(config))
    found, state, left_over = read(theirs.state_dict())
    assert (found.layout.version, found.place, left_over) == (2, "backbone.", [])
    assert kind_of(state) == "segmentor"


def test_the_name_of_either_end_is_found_below_another_model():
    state = PEERS["model"]().state_dict()
    found = recognise([f"model.pixel_level_module.encoder.{name}" for name in state])
    assert (found.layout.name, found.prefix, found.root) == ("transformers", "model.pixel_level_module.encoder.", "")
