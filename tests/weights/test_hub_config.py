import pytest

from src.classes import ClassList
from src.weights.hub_config import hub_config
from src.weights.published import read_published
from tests.weights.files import classifier_state, encoder, saved, segmenter


def test_the_sizes_are_those_of_the_weights(tmp_path):
    model = encoder(embed_dim=12, depths=(1, 2), num_heads=(2, 3), window_size=5, mlp_ratio=2.0, qkv_bias=False)
    path = saved(tmp_path / "ours.pth", model.state_dict())
    config = hub_config(read_published(path), "encoder", None, 160)
    assert config == {
        "architectures": ["SwinBackbone"], "model_type": "swin", "embed_dim": 12, "depths": [1, 2],
        "num_heads": [2, 3], "window_size": 5, "patch_size": 4, "num_channels": 3, "mlp_ratio": 2.0,
        "qkv_bias": False, "use_absolute_embeddings": False, "image_size": 160, "hidden_size": 24,
        "out_features": ["stage1", "stage2"],
    }  # fmt: skip


def test_heads_and_classes_are_told(tmp_path):
    model = segmenter(num_classes=3)
    published = read_published(model.save_pretrained(tmp_path / "saved"))
    config = hub_config(published, "segmentor", ClassList.from_names(["sky", "tree", "road"]), 512)
    assert config["id2label"] == {"0": "sky", "1": "tree", "2": "road"}
    assert config["label2id"] == {"sky": 0, "tree": 1, "road": 2}
    assert (config["hidden_size"], config["auxiliary_channels"], config["auxiliary_in_channels"]) == (8, 8, 32)
    assert config["pool_scales"] == [1, 2, 3, 6]
    assert config["backbone_config"]["out_features"] == ["stage1", "stage2", "stage3", "stage4"]
    unnamed = hub_config(published, "segmentor", None, 512)
    assert unnamed["id2label"] == {"0": "LABEL_0", "1": "LABEL_1", "2": "LABEL_2"}


def test_version_2_tells_windows_that_transformers_builds_at_that_size(tmp_path):
    state = classifier_state(encoder(2), 5)
    path = saved(tmp_path / "swinv2_base_window12to16_192to256.pth", state)
    config = hub_config(read_published(path), "classifier", None, 256)
    assert config["architectures"] == ["Swinv2ForImageClassification"]
    assert (config["window_size"], config["pretrained_window_sizes"]) == (16, [12, 12, 12, 6])
    assert len(config["id2label"]) == 5


def test_windows_that_are_not_square_are_refused(tmp_path):
    model = segmenter(num_classes=3, window_size=(2, 3))
    published = read_published(model.save_pretrained(tmp_path / "saved"))
    with pytest.raises(ValueError, match="windows must be square in transformers, got 2x3"):
        hub_config(published, "segmentor", None, 128)
