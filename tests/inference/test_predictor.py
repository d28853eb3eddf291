import numpy as np
import pytest
import torch
import torch.nn.functional as F
from PIL import Image

from src.classes import ClassList
from src.inference import Predictor, load_predictor
from src.inference.checkpoint import SECTION, checkpoint_section
from src.preprocessing import Preprocessing

CLASSES = ClassList.from_names(["sky", "tree", "road"])


def pixels(size=(97, 143), channels=3):
    return np.random.default_rng(0).integers(0, 256, (*size, channels), dtype=np.uint8)


@pytest.fixture
def model(tiny_segmenter):
    return tiny_segmenter(num_classes=3)


@pytest.fixture
def predictor(model):
    return Predictor(model, Preprocessing(resize=(120, 40)), CLASSES)


@pytest.mark.parametrize("size", [(97, 143), (250, 167), (64, 64), (1, 1)])
def test_labels_have_the_pictures_size(predictor, size):
    labels = predictor(pixels(size))
    assert labels.shape == size
    assert labels.dtype == torch.int64
    assert set(labels.unique().tolist()) <= {0, 1, 2}


def test_labels_are_the_preprocessed_pictures_resized_twice(predictor, model):
    inputs = predictor.preprocessing(pixels())
    with torch.no_grad():
        logits = model.eval()(inputs[None]).logits
    for size in (inputs.shape[1:], (97, 143)):
        logits = F.interpolate(logits, size=size, mode="bilinear", align_corners=False)
    assert inputs.shape[1:] == (40, 59)
    assert torch.equal(predictor(pixels()), logits.argmax(1)[0])


def test_arrays_tensors_and_pictures_give_the_same(predictor):
    array = pixels()
    expected = predictor(array)
    assert torch.equal(predictor(torch.from_numpy(array)), expected)
    assert torch.equal(predictor(Image.fromarray(array)), expected)


def test_model_and_inputs_go_to_the_device(model, monkeypatch):
    moved = []
    for owner in (torch.nn.Module, torch.Tensor):
        monkeypatch.setattr(owner, "to", recording_to(owner, moved))
    Predictor(model, Preprocessing(resize=(120, 40)), CLASSES, "cuda:3")(pixels())
    assert [(kind.__name__, str(device)) for kind, device in moved] == [("Segmenter", "cuda:3"), ("Tensor", "cuda:3")]


def recording_to(owner, moved):
    move = owner.to

    def to(self, target, *args, **kwargs):
        if not str(target).startswith("cuda"):
            return move(self, target, *args, **kwargs)
        moved.append((type(self), target))
        return self

    return to


def test_a_list_gives_a_list_of_what_each_gives_alone(predictor):
    pictures = [pixels(), pixels((20, 30)), Image.fromarray(pixels((33, 9)))]
    labels = predictor(pictures)
    assert [tuple(each.shape) for each in labels] == [(97, 143), (20, 30), (33, 9)]
    assert all(torch.equal(each, predictor(picture)) for each, picture in zip(labels, pictures, strict=True))


def test_grey_pictures_become_colour(predictor):
    grey = pixels(channels=1)
    expected = predictor(grey.repeat(3, axis=2))
    for picture in (grey, grey[:, :, 0], torch.from_numpy(grey), Image.fromarray(grey[:, :, 0])):
        assert torch.equal(predictor(picture), expected)


def test_transparency_of_a_picture_is_dropped(predictor):
    array = pixels(channels=4)
    assert torch.equal(predictor(Image.fromarray(array)), predictor(array[:, :, :3]))


def test_a_sideways_photograph_is_turned(predictor, tmp_path):
    exif = Image.Exif()
    exif[0x0112] = 6
    Image.fromarray(pixels((40, 60))).save(tmp_path / "photo.png", exif=exif)
    labels = predictor(Image.open(tmp_path / "photo.png"))
    assert torch.equal(labels, predictor(np.rot90(pixels((40, 60)), -1)))


def test_a_model_of_other_channels_takes_such_arrays(tiny_segmenter):
    predictor = Predictor(
        tiny_segmenter(num_classes=3, in_channels=5), Preprocessing(None, (0,) * 5, (1,) * 5), CLASSES
    )
    assert predictor(pixels(channels=5)).shape == (97, 143)
    with pytest.raises(ValueError, match=r"image must be \(H, W, 5\) of uint8, got \(97, 143, 3\)"):
        predictor(pixels())


def test_pixels_of_another_type_are_refused(predictor):
    with pytest.raises(ValueError, match=r"image must be \(H, W, 3\) of uint8"):
        predictor(pixels().astype(np.float32))


def test_a_checkpoint_is_all_that_is_needed(predictor, model, tmp_path):
    section = checkpoint_section(model, CLASSES, predictor.preprocessing)
    state_dict = {f"model.{name}": value for name, value in model.state_dict().items()}
    torch.save({SECTION: section, "state_dict": state_dict}, tmp_path / "some.ckpt")
    loaded = load_predictor(tmp_path / "some.ckpt", device="cpu")
    assert torch.equal(loaded(pixels()), predictor(pixels()))
    assert loaded.classes == CLASSES
    assert not loaded.model.training
