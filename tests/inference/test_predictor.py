from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from PIL import Image

from src.classes import ClassList
from src.image_io import read_image
from src.inference import Predictor, load_predictor
from src.models.section import SECTION, checkpoint_section
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


@pytest.mark.parametrize("kind", [np.float32, bool, np.uint16, np.int64, object, "U3"])
def test_pixels_of_another_type_are_refused(predictor, kind):
    with pytest.raises(ValueError, match=r"image must be \(H, W, 3\) of uint8, got \(97, 143, 3\) of .*; values"):
        predictor(pixels().astype(kind))


@pytest.mark.parametrize("shape", [(), (3,), (1,), (2, 9, 9, 3), (0, 5, 3), (9, 9, 2), (9, 9, 0)])
@pytest.mark.parametrize("convert", [np.asarray, torch.from_numpy])
def test_pixels_of_another_shape_are_refused(predictor, shape, convert):
    with pytest.raises(ValueError, match=r"image must be \(H, W, 3\) of uint8, got"):
        predictor(convert(np.zeros(shape, np.uint8)))


def test_channels_that_come_first_are_refused_and_floats_too(predictor):
    tensor = torch.from_numpy(pixels()).permute(2, 0, 1)
    with pytest.raises(ValueError, match=r"image must be \(H, W, 3\), got \(3, 97, 143\); move the channels"):
        predictor(tensor)
    with pytest.raises(ValueError, match=r"got \(3, 97, 143\) of float32"):
        predictor(tensor / 255)


@pytest.mark.parametrize("thing", [3, None, b"photo.png", {"image": pixels()}, [None]])
def test_what_is_no_picture_is_refused(predictor, thing):
    with pytest.raises(ValueError, match=r"image must be an array, a tensor, .*a path or a list of these, got \w+;"):
        predictor(thing)


def test_memory_may_be_laid_out_in_any_way_and_stays_as_it_was(predictor):
    array = pixels()
    expected = predictor(array)
    larger = np.zeros((194, 143, 6), np.uint8)
    larger[::2, :, ::2] = array
    locked = array.copy()
    locked.flags.writeable = False
    views = [larger[::2, :, ::2], array[::-1].copy()[::-1], array[:, :, ::-1].copy()[:, :, ::-1], locked]
    views += [np.asfortranarray(array), torch.from_numpy(larger)[::2, :, ::2]]
    before = array.copy()
    assert all(torch.equal(predictor(view), expected) for view in views)
    assert np.array_equal(array, before)


def test_several_are_any_iterable_of_any_of_these(predictor, tmp_path):
    array = pixels((20, 30))
    Image.fromarray(array).save(tmp_path / "a.png")
    things = [array, torch.from_numpy(array), Image.fromarray(array), tmp_path / "a.png", str(tmp_path / "a.png")]
    for several in (things, tuple(things), iter(things), (thing for thing in things)):
        labels = predictor(several)
        assert len(labels) == 5
        assert all(torch.equal(each, labels[0]) for each in labels)
    assert predictor([]) == []


def drawn(mode: str) -> Image.Image:
    if mode == "P with transparency":
        palette = Image.fromarray(pixels((40, 60))).quantize(16)
        palette.info["transparency"] = 3
        return palette
    source = Image.fromarray(pixels((40, 60), 4))
    return source.convert("L").convert(mode) if mode == "LA" else source.convert("RGB").convert(mode)


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize(
    ("mode", "suffix"),
    [
        ("RGB", "png"),
        ("RGB", "jpg"),
        ("RGBA", "png"),
        ("L", "png"),
        ("LA", "png"),
        ("1", "png"),
        ("P", "png"),
        ("P", "gif"),
        ("P with transparency", "png"),
        ("CMYK", "jpg"),
        ("CMYK", "tif"),
        ("YCbCr", "jpg"),
    ],
)
def test_files_are_read_as_the_data_read_them(tiny_segmenter, tmp_path, mode, suffix, channels):
    path = tmp_path / f"photo.{suffix}"
    drawn(mode).save(path)
    predictor = Predictor(
        tiny_segmenter(3, in_channels=channels), Preprocessing(None, (9,) * channels, (5,) * channels), CLASSES
    )
    expected = predictor(read_image(path, channels))
    assert torch.equal(predictor(path), expected)
    assert torch.equal(predictor(Image.open(path)), expected)


@pytest.mark.parametrize("orientation", range(1, 9))
def test_files_are_turned_as_the_data_turn_them(predictor, tmp_path, orientation):
    exif = Image.Exif()
    exif[0x0112] = orientation
    for suffix in ("png", "jpg", "tif"):
        path = tmp_path / f"photo.{suffix}"
        Image.fromarray(pixels((40, 60))).save(path, exif=exif)
        labels = predictor(path)
        assert torch.equal(labels, predictor(read_image(path)))
        assert torch.equal(labels, predictor(Image.open(path)))


@pytest.mark.parametrize("mode", ["I;16", "I", "F"])
def test_deep_pictures_are_refused(predictor, tmp_path, mode):
    picture = Image.new(mode, (20, 10), 700)
    picture.save(tmp_path / "deep.tif")
    with pytest.raises(ValueError, match=rf"image must have 8 bits a channel, got a picture of mode {mode}; convert"):
        predictor(picture)
    with pytest.raises(ValueError, match=r"image must have 8 bits a channel, got mode .* in .*deep\.tif; convert"):
        predictor(tmp_path / "deep.tif")


def test_files_that_cannot_be_read_are_named(predictor, tmp_path, monkeypatch):
    (tmp_path / "text.png").write_text("hello")
    Image.fromarray(pixels()).save(tmp_path / "photo.png")
    (tmp_path / "cut.png").write_bytes((tmp_path / "photo.png").read_bytes()[:2000])
    with pytest.raises(FileNotFoundError, match=r"none\.png does not exist"):
        predictor(tmp_path / "none.png")
    with pytest.raises(ValueError, match=r"must be an image file, got a folder; give the files in it"):
        predictor(tmp_path)
    for name in ("text.png", "cut.png"):
        with pytest.raises(ValueError, match=rf"{name} cannot be read as an image"):
            predictor(str(tmp_path / name))
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 100)
    with pytest.raises(ValueError, match=r"photo\.png is larger than data.max_image_pixels"):
        predictor(tmp_path / "photo.png")
    lifted = Predictor(predictor.model, predictor.preprocessing, CLASSES, max_image_pixels=10**6)
    assert lifted(tmp_path / "photo.png").shape == pixels().shape[:2]


def test_threads_may_share_a_predictor(model):
    predictor = Predictor(model, Preprocessing(), CLASSES)
    pictures = [pixels((20 + 7 * index, 90 - 3 * index)) for index in range(12)]
    expected = Predictor(model, Preprocessing(), CLASSES)(pictures)
    with ThreadPoolExecutor(4) as threads:
        for labels, alone in zip(threads.map(predictor, pictures), expected, strict=True):
            assert torch.equal(labels, alone)


@pytest.mark.parametrize("device", ["cuda:99", "meta", "toaster", "xpu:77"])
def test_devices_that_are_not_there_are_named_before_the_file_is_read(tmp_path, device):
    with pytest.raises(ValueError, match=rf"device must be one of this machine, got {device} \(.+\); use `cpu`"):
        load_predictor(tmp_path / "none.ckpt", device)


def test_a_checkpoint_is_all_that_is_needed(predictor, model, tmp_path):
    section = checkpoint_section(model, CLASSES, predictor.preprocessing)
    state_dict = {f"model.{name}": value for name, value in model.state_dict().items()}
    torch.save({SECTION: section, "state_dict": state_dict}, tmp_path / "some.ckpt")
    loaded = load_predictor(tmp_path / "some.ckpt", device="cpu")
    assert torch.equal(loaded(pixels()), predictor(pixels()))
    assert loaded.classes == CLASSES
    assert not loaded.model.training
