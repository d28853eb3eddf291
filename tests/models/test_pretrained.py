import json
from types import SimpleNamespace

import pytest
import torch
from safetensors.torch import load_file
from torch import nn

from src.classes import ClassList
from src.models import FCNHead, Segmenter, SwinTransformer, UPerNetDecoder
from src.models.pretrained import CARD, CONFIG, WEIGHTS, own_memory, read_folder
from src.preprocessing import Preprocessing
from src.weights import load_weights
from src.weights.published import read_published
from tests.models.random_weights import randomise
from tests.models.toys import PlainDecoder, ToyEncoder

CLASSES = ClassList.from_names(["sky", "tree", "road"])


@pytest.fixture
def model(tiny_segmenter):
    return randomise(tiny_segmenter(num_classes=3))


@pytest.fixture
def folder(model, tmp_path):
    return model.save_pretrained(tmp_path / "saved", CLASSES, Preprocessing())


def same(first: nn.Module, second: nn.Module) -> bool:
    one, other = first.state_dict(), second.state_dict()
    return one.keys() == other.keys() and all(
        torch.equal(one[name], other[name]) and one[name].dtype == other[name].dtype for name in one
    )


def test_a_model_comes_back_bit_for_bit_and_ready(model, folder):
    back = Segmenter.from_pretrained(folder)
    assert same(back, model)
    assert not back.training
    images = torch.randn(1, 3, 37, 51)
    assert torch.equal(back(images).logits, model(images).logits)
    assert {path.name for path in folder.iterdir()} == {CARD, CONFIG, WEIGHTS}


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_the_type_of_each_weight_is_kept(model, tmp_path, dtype):
    model.to(dtype)
    model.decoder.conv_seg.float()
    assert same(Segmenter.from_pretrained(model.save_pretrained(tmp_path / "saved")), model)


def test_a_path_may_be_text_and_a_model_without_an_auxiliary_head_is_saved(tmp_path):
    small = {"embed_dim": 8, "depths": (1, 1), "num_heads": (1, 2), "window_size": 2, "absolute_pos_embed": (3, 5)}
    model = Segmenter(SwinTransformer(**small), lambda *a: UPerNetDecoder(*a, channels=4), num_classes=2)
    model.save_pretrained(str(tmp_path / "saved"))
    assert same(Segmenter.from_pretrained(str(tmp_path / "saved")), model)


@pytest.mark.parametrize("whole", [True, False])
def test_a_compiled_model_has_plain_names(model, tmp_path, whole):
    names = set(model.state_dict())
    compiled = torch.compile(model) if whole else model
    if not whole:
        model.encoder = torch.compile(model.encoder)
    compiled.save_pretrained(tmp_path / "saved", CLASSES)
    assert set(load_file(tmp_path / "saved" / WEIGHTS)) == names
    assert Segmenter.from_pretrained(tmp_path / "saved").num_classes == 3
    assert "SwinTransformer with UPerNetDecoder" in (tmp_path / "saved" / CARD).read_text()


def test_what_is_said_of_the_model_is_plain(model, tmp_path):
    scores = {"val/miou": torch.tensor(0.5), "val/iou/sky": 0.75, "val/iou/tree": float("nan")}
    folder = model.save_pretrained(tmp_path / "saved", CLASSES, Preprocessing(resize=(2048, 512)), scores)
    config = json.loads((folder / CONFIG).read_text())
    assert config["format_version"] == 1
    assert config["classes"]["names"] == ["sky", "tree", "road"]
    assert config["preprocessing"]["resize"] == [2048, 512]
    assert config["scores"] == {"val/miou": 0.5, "val/iou/sky": 0.75, "val/iou/tree": None}
    assert config["model"]["init_args"]["encoder"]["init_args"]["window_size"] == 4


def test_a_folder_of_before_is_replaced_whole(model, folder, tiny_segmenter):
    other = randomise(tiny_segmenter(num_classes=5), seed=1)
    other.save_pretrained(folder)
    assert same(Segmenter.from_pretrained(folder), other)
    assert json.loads((folder / CONFIG).read_text())["classes"] is None
    assert [path.name for path in folder.parent.iterdir()] == ["saved"]


def test_an_empty_folder_is_filled(model, tmp_path):
    (tmp_path / "empty").mkdir()
    assert same(Segmenter.from_pretrained(model.save_pretrained(tmp_path / "empty")), model)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("photo.jpg", "mine"),
        (".git", "mine"),
        ("model.safetensors", "mine"),
        ("config.json", "mine"),
        ("config.json", "[1]"),
        ("config.json", '{"library_name": "transformers"}'),
        ("config.json", '{"model_type": "upernet"}'),
    ],
)
def test_a_folder_of_something_else_is_not_touched(model, tmp_path, name, text):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / name).write_text(text)
    with pytest.raises(ValueError, match="folder must be new, empty or of an earlier save_pretrained"):
        model.save_pretrained(tmp_path / "mine")
    assert (tmp_path / "mine" / name).read_text() == text


def test_a_file_in_the_place_of_the_folder_is_told(model, tmp_path):
    (tmp_path / "saved").write_text("mine")
    with pytest.raises(ValueError, match="which is a file; choose another"):
        model.save_pretrained(tmp_path / "saved")


def test_a_folder_that_may_not_be_written_is_told(model, tmp_path, monkeypatch):
    def full(*args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("src.models.pretrained.write_tensors", full)
    with pytest.raises(ValueError, match=r"saved cannot be written \(No space left on device\)"):
        model.save_pretrained(tmp_path / "saved")
    assert list(tmp_path.iterdir()) == []


def test_an_encoder_that_does_not_tell_its_channels_takes_any_preprocessing(tmp_path):
    model = Segmenter(ToyEncoder(), PlainDecoder, num_classes=2)
    assert not hasattr(model.encoder, "in_channels")
    folder = model.save_pretrained(tmp_path / "saved", preprocessing=Preprocessing(mean=(0,), std=(1,)))
    assert same(Segmenter.from_pretrained(folder), model)


def test_classes_and_channels_must_be_the_models(model, tmp_path):
    with pytest.raises(ValueError, match="classes must name each of the model's 3 outputs, got 2"):
        model.save_pretrained(tmp_path / "saved", ClassList.from_names("ab"))
    with pytest.raises(ValueError, match="a mean for each of the model's 3 channels, got 1"):
        model.save_pretrained(tmp_path / "saved", preprocessing=Preprocessing(mean=(0,), std=(1,)))
    with pytest.raises(ValueError, match="scores must be numbers by name, got 'high' for miou"):
        model.save_pretrained(tmp_path / "saved", scores={"miou": "high"})
    assert list(tmp_path.iterdir()) == []


def test_a_model_that_does_not_tell_how_it_was_built_is_refused(model, tmp_path):
    model.decoder.settings["init_args"]["norm"] = object()
    with pytest.raises(ValueError, match=r"model\.model\.decoder\.norm cannot be written"):
        model.save_pretrained(tmp_path / "saved")
    assert list(tmp_path.iterdir()) == []


def test_a_file_in_the_place_of_a_folder_is_told(folder):
    with pytest.raises(ValueError, match=r"source must be a folder of Segmenter\.save_pretrained, got the file"):
        Segmenter.from_pretrained(folder / WEIGHTS)


def test_a_folder_that_is_not_there_is_told(tmp_path):
    with pytest.raises(FileNotFoundError, match="absent"):
        Segmenter.from_pretrained(tmp_path / "absent")


def test_the_folder_is_a_source_of_weights(model, folder, tiny_segmenter):
    other = tiny_segmenter(num_classes=3)
    report = load_weights(other, folder)
    assert report.coverage == 1
    assert same(other, model)
    assert read_published(folder).classes == CLASSES


def test_from_the_hub_it_is_fetched_first(model, folder, monkeypatch):
    asked = []
    monkeypatch.setattr("src.models.pretrained.located", lambda source: asked.append(source) or folder)
    assert same(Segmenter.from_pretrained("hf:me/model@v1"), model)
    assert asked == ["hf:me/model@v1"]


class Hub:
    """Stands in for ``HfApi``: keeps what was uploaded."""

    def __init__(self, fail: str = ""):
        self.calls, self.fail = [], fail

    def __call__(self, token=None):
        self.token = token
        return self

    def create_repo(self, repo_id, private=None, exist_ok=False):
        self.calls.append((repo_id, private, exist_ok))
        if self.fail:
            raise OSError(self.fail)

    def upload_folder(self, repo_id, folder_path, commit_message):
        self.files = {path.name: path.read_bytes() for path in folder_path.iterdir()}
        self.calls.append((repo_id, commit_message))
        return SimpleNamespace(commit_url="https://huggingface.co/me/model/commit/1")


def test_the_hub_gets_the_same_folder(model, monkeypatch, folder):
    hub = Hub()
    monkeypatch.setattr("huggingface_hub.HfApi", hub)
    address = model.push_to_hub(
        "me/model", CLASSES, Preprocessing(), licence="mit", token="secret", private=True, commit_message="first"
    )
    assert address == "https://huggingface.co/me/model/commit/1"
    assert hub.token == "secret"
    assert hub.calls == [("me/model", True, True), ("me/model", "first")]
    assert hub.files[WEIGHTS] == (folder / WEIGHTS).read_bytes()
    assert hub.files[CONFIG] == (folder / CONFIG).read_bytes()
    card = hub.files[CARD].decode()
    assert "from_pretrained('hf:me/model')" in card
    assert "license: mit" in card
    assert not any(b"secret" in content for content in hub.files.values())


def test_a_hub_that_refuses_is_told(model, monkeypatch):
    monkeypatch.setattr("huggingface_hub.HfApi", Hub("401 Client Error\nmore"))
    with pytest.raises(ValueError, match=r"me/model cannot be written on the Hub \(401 Client Error\); check the name"):
        model.push_to_hub("me/model")


def test_nothing_is_uploaded_of_a_model_that_cannot_be_saved(model, monkeypatch):
    hub = Hub()
    monkeypatch.setattr("huggingface_hub.HfApi", hub)
    with pytest.raises(ValueError, match="got 2 names"):
        model.push_to_hub("me/model", ClassList.from_names("ab"))
    assert hub.calls == []


def test_tensors_that_share_memory_are_parted():
    whole = torch.arange(12.0)
    alone = own_memory({"first": whole[:4], "again": whole, "tied": whole, "turned": whole.view(3, 4).T})
    assert {name: value.untyped_storage().nbytes() for name, value in alone.items()} == {
        "first": 16, "again": 48, "tied": 48, "turned": 48,
    }  # fmt: skip
    assert len({value.untyped_storage().data_ptr() for value in alone.values()}) == 4
    assert torch.equal(alone["turned"], whole.view(3, 4).T)


def test_a_head_of_another_name_comes_back_too(tmp_path):
    model = Segmenter(
        SwinTransformer(embed_dim=8, depths=(1, 1), num_heads=(1, 2), window_size=2),
        lambda *a: FCNHead(*a, level=1, channels=4),
        num_classes=2,
    )
    model.save_pretrained(tmp_path / "saved")
    section, tensors = read_folder(tmp_path / "saved")
    assert section["model"]["init_args"]["decoder"]["class_path"] == "src.models.fcn_head.FCNHead"
    assert same(Segmenter.from_pretrained(tmp_path / "saved"), model)
    assert set(tensors) == set(model.state_dict())
