import functools

import pytest
import torch
from lightning.pytorch import Trainer

from src.classes import ClassList
from src.inference import load_predictor
from src.inference.checkpoint import load_checkpoint, read_section
from src.models import FCNHead, Segmenter, UPerNetDecoder
from src.preprocessing import Preprocessing
from src.tasks import SemanticSegmentation
from src.weights.convert import convert
from src.weights.published import read_published
from src.weights.rebuilt import known_preprocessing, own_checkpoint, segmenter_settings, whole
from tests.models.random_weights import randomise
from tests.weights.files import encoder, saved, segmenter, theirs

CLASSES = ClassList.from_names(["sky", "tree", "road"])


def foreign(model: Segmenter, path, layout: str = "official"):
    """A file of another library, which holds names and numbers alone."""
    return saved(path, {"state_dict": theirs(model.state_dict(), layout)})


@pytest.mark.parametrize("layout", ["official", "mmseg", "transformers"])
def test_a_segmentor_of_others_becomes_a_checkpoint_that_predicts_at_once(tmp_path, layout):
    model = segmenter(num_classes=3)
    convert(foreign(model, tmp_path / "theirs.pth", layout), tmp_path / "ours.ckpt", "toolkit", classes=CLASSES)
    predictor = load_predictor(tmp_path / "ours.ckpt")
    assert predictor.classes == CLASSES
    assert predictor.preprocessing == Preprocessing(resize=(2048, 512))
    images = torch.randn(1, 3, 45, 67)
    assert torch.equal(predictor.model(images).logits, model(images).logits)
    assert (
        read_section(tmp_path / "ours.ckpt")["model"]
        == load_checkpoint(tmp_path / "ours.ckpt")["segmentation"]["model"]
    )


def test_the_trainer_takes_the_checkpoint_and_so_does_the_task(tmp_path):
    model = segmenter(num_classes=3)
    path = tmp_path / "ours.ckpt"
    convert(foreign(model, tmp_path / "theirs.pth"), path, "toolkit", classes=CLASSES)
    task = SemanticSegmentation.load_from_checkpoint(path)
    task.predict_step = lambda batch, batch_idx: task.model.decoder.conv_seg.bias.clone()
    torch.nn.init.zeros_(task.model.decoder.conv_seg.bias)
    trainer = Trainer(accelerator="cpu", logger=False, enable_progress_bar=False, enable_checkpointing=False)
    (bias,) = trainer.predict(task, [torch.zeros(1)], ckpt_path=path, weights_only=True)
    assert torch.equal(bias, model.decoder.conv_seg.bias)


def test_the_settings_are_read_from_the_weights(tmp_path):
    heads = {"decoder": functools.partial(UPerNetDecoder, channels=16)}
    heads["auxiliary"] = functools.partial(FCNHead, channels=4, num_convs=2, level=1)
    model = randomise(Segmenter(encoder(window_size=(3, 3), absolute_pos_embed=(5, 5)), **heads, num_classes=4))
    settings = segmenter_settings(read_published(foreign(model, tmp_path / "theirs.pth")))
    rebuilt = Segmenter.from_settings(settings)
    rebuilt.load_state_dict(model.state_dict())
    assert settings["init_args"]["auxiliary"]["init_args"] == {
        "level": 1, "channels": 4, "num_convs": 2, "norm": "batch",
    }  # fmt: skip
    images = torch.randn(1, 3, 33, 41)
    assert torch.equal(rebuilt.eval()(images).logits, model(images).logits)


def test_a_model_without_an_auxiliary_head_stays_so(tmp_path):
    model = segmenter(num_classes=3)
    model.auxiliary = None
    settings = segmenter_settings(read_published(foreign(model, tmp_path / "theirs.pth")))
    assert settings["init_args"]["auxiliary"] is None


def test_classes_are_asked_for_and_never_guessed(tmp_path):
    path = foreign(segmenter(num_classes=150), tmp_path / "theirs.pth")
    with pytest.raises(ValueError, match=r"the 150 classes of .* must be named, and its file does not; give --classes"):
        convert(path, tmp_path / "ours.ckpt", "toolkit")
    assert not (tmp_path / "ours.ckpt").exists()
    convert(path, tmp_path / "ours.ckpt", "toolkit", classes=ClassList.ade20k())
    assert load_predictor(tmp_path / "ours.ckpt").classes == ClassList.ade20k()


def test_pools_that_nothing_tells_are_not_guessed(tmp_path):
    heads = {"decoder": functools.partial(UPerNetDecoder, channels=8, pool_sizes=(1, 2, 3))}
    model = randomise(Segmenter(encoder(), **heads, num_classes=3))
    with pytest.raises(ValueError, match=r"must have the published pools \(1, 2, 3, 6\), got 3 others"):
        convert(foreign(model, tmp_path / "theirs.pth"), tmp_path / "ours.ckpt", "toolkit", classes=CLASSES)
    folder = model.save_pretrained(tmp_path / "saved", CLASSES, Preprocessing())
    convert(folder, tmp_path / "ours.ckpt", "toolkit")  # ours tells them
    images = torch.randn(1, 3, 33, 41)
    assert torch.equal(load_predictor(tmp_path / "ours.ckpt").model(images).logits, model(images).logits)


def test_what_a_model_of_ours_tells_is_kept(tmp_path):
    model = segmenter(num_classes=3, padded_keys="mask", drop_path_rate=0.125)
    folder = model.save_pretrained(tmp_path / "saved", CLASSES, Preprocessing((64, 32), (1, 2, 3), (4, 5, 6)))
    done = convert(folder, tmp_path / "ours.ckpt", "toolkit")
    section = read_section(tmp_path / "ours.ckpt")
    assert section["preprocessing"] == {"resize": [64, 32], "mean": [1, 2, 3], "std": [4, 5, 6]}
    assert section["model"]["init_args"]["encoder"]["init_args"]["padded_keys"] == "mask"
    assert section["model"]["init_args"]["encoder"]["init_args"]["drop_path_rate"] == 0.125
    assert done.notes == ()


def test_settings_of_a_task_go_along(tmp_path):
    model = segmenter(num_classes=3)
    task = SemanticSegmentation(model, CLASSES, auxiliary_weight=0.25)
    checkpoint = {"state_dict": task.state_dict()}
    task.on_save_checkpoint(checkpoint)
    published = read_published(saved(tmp_path / "first.ckpt", checkpoint))
    other = ClassList.from_names("abc")
    made = own_checkpoint(published, other, Preprocessing())["segmentation"]
    assert made["task"]["init_args"]["auxiliary_weight"] == 0.25
    assert made["task"]["init_args"]["classes"]["names"] == made["classes"]["names"] == ["a", "b", "c"]


def test_images_are_scored_at_the_size_that_is_published_or_told(tmp_path):
    path = str(foreign(segmenter(num_classes=3), tmp_path / "theirs.pth"))
    published = read_published(path)
    assert known_preprocessing(published)[0].resize == (2048, 512)
    assert known_preprocessing(published, 640)[0].resize == (2560, 640)
    convert(path, tmp_path / "ours.ckpt", "toolkit", image_size=256, classes=CLASSES)
    assert load_predictor(tmp_path / "ours.ckpt").preprocessing.resize == (1024, 256)


def test_images_that_are_not_rgb_need_a_preprocessing(tmp_path):
    path = foreign(segmenter(num_classes=3, in_channels=1), tmp_path / "theirs.pth")
    with pytest.raises(ValueError, match="must take RGB images, got 1 channels"):
        known_preprocessing(read_published(path))


def test_other_parts_than_ours_are_told(tmp_path):
    model = segmenter(num_classes=3)
    state = {name: value for name, value in model.state_dict().items() if "bottleneck" not in name}
    path = saved(tmp_path / "theirs.pth", {"state_dict": theirs(state, "official")})
    with pytest.raises(ValueError, match="must hold Swin with UPerNet to be built"):
        convert(path, tmp_path / "ours.ckpt", "toolkit", classes=CLASSES)


def test_missing_weights_are_told_before_anything_is_written(tmp_path):
    state = theirs(segmenter(num_classes=3).state_dict(), "official")
    del state["backbone.layers.1.blocks.0.norm2.bias"]
    path = saved(tmp_path / "theirs.pth", {"state_dict": state})
    with pytest.raises(ValueError, match=r"encoder\.layers\.1\.blocks\.0\.norm2\.bias"):
        convert(path, tmp_path / "ours.ckpt", "toolkit", classes=CLASSES)
    assert not (tmp_path / "ours.ckpt").exists()


def test_counts_that_a_file_lacks_are_added_and_others_stay():
    state = {"a.running_mean": torch.ones(2), "b.running_mean": torch.ones(2), "b.num_batches_tracked": torch.tensor(7)}
    made = whole(state)
    assert made["a.num_batches_tracked"] == 0
    assert made["b.num_batches_tracked"] == 7
    assert len(made) == 4
