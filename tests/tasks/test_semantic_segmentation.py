import csv
from pathlib import Path

import numpy as np
import pytest
import torch
from lightning.pytorch import Trainer
from lightning.pytorch.loggers import CSVLogger
from PIL import Image
from torch import nn
from torch.nn import functional as F

from src.callbacks import BestAndLast
from src.classes import ClassList
from src.data import ImageFolder, MaskFolder, Sample
from src.losses import CrossEntropy
from src.metrics import Scores
from src.models import FeatureSpec, Segmenter
from src.models.section import MIGRATIONS, SECTION
from src.models.settings import RecordsSettings
from src.optim import SwinRecipe
from src.preprocessing import Preprocessing
from src.tasks import SemanticSegmentation

QUIET = {"accelerator": "cpu", "enable_progress_bar": False, "enable_model_summary": False, "logger": False}


def make_trainer(**settings) -> Trainer:
    return Trainer(**QUIET | {"enable_checkpointing": False, "use_distributed_sampler": False} | settings)


def batch_of(images: torch.Tensor, masks: torch.Tensor) -> dict:
    sizes = [tuple(image.shape[-2:]) for image in images]
    return {"images": images, "masks": masks, "sizes": sizes, "original_sizes": sizes, "names": ["a"] * len(images)}


def folder_of(path: Path, pairs: list[tuple[np.ndarray, np.ndarray]]) -> dict[str, str]:
    for kind in ("images", "masks"):
        (path / kind).mkdir(parents=True)
    for index, (image, mask) in enumerate(pairs):
        Image.fromarray(image).save(path / "images" / f"{index}.png")
        Image.fromarray(mask).save(path / "masks" / f"{index}.png")
    (path / "classes.txt").write_text("stripe\nground\nrest\n")
    return {"images": f"{path}/images", "masks": f"{path}/masks", "classes": f"{path}/classes.txt"}


@pytest.fixture
def sample(sample_root):
    return Sample(root=str(sample_root), batch_size=2, crop_size=32, num_workers=0)


@pytest.fixture
def task(tiny_segmenter, sample):
    return SemanticSegmentation(tiny_segmenter(), sample.classes)


def test_loss_is_the_decoders_plus_the_weighted_auxiliary(tiny_segmenter):
    for weight in (0.4, 1.5):
        task = SemanticSegmentation(tiny_segmenter(3), ClassList.from_names("abc"), auxiliary_weight=weight).train()
        for module in task.modules():
            if isinstance(module, nn.Dropout2d):
                module.p = 0.0
        images, masks = torch.randn(2, 3, 32, 32), torch.randint(0, 3, (2, 32, 32))
        masks[:, :5] = 255
        output = task.model(images)
        decoder, auxiliary = [
            F.cross_entropy(F.interpolate(logits, (32, 32), mode="bilinear"), masks, ignore_index=255)
            for logits in (output.logits, output.auxiliary_logits)
        ]
        losses = {name: value.item() for name, value in task.losses(batch_of(images, masks)).items()}
        expected = {"loss": decoder + weight * auxiliary, "loss_decoder": decoder, "loss_auxiliary": auxiliary}
        assert losses == pytest.approx({name: value.item() for name, value in expected.items()}, rel=1e-5)


@pytest.mark.parametrize("mean", ["labelled", "all"])
def test_a_batch_without_labels_gives_zero_and_leaves_the_weights_finite(tiny_segmenter, mean):
    model = tiny_segmenter(3)
    task = SemanticSegmentation(model, ClassList.from_names("abc"), loss=CrossEntropy(mean=mean)).train()
    optimizer, _ = SwinRecipe(lr=0.1, warmup=0.0).build(model, 10)
    losses = task.losses(batch_of(torch.randn(1, 3, 32, 32), torch.full((1, 32, 32), 255)))
    losses["loss"].backward()
    optimizer.step()
    assert [value.item() for value in losses.values()] == [0.0, 0.0, 0.0]
    assert all(torch.isfinite(p.grad).all() for p in model.parameters() if p.grad is not None)
    assert all(torch.isfinite(p).all() for p in model.parameters())


def test_training_follows_the_recipes_schedule_at_every_step(tiny_segmenter, sample, tmp_path):
    task = SemanticSegmentation(tiny_segmenter(), sample.classes, optimizer=SwinRecipe(lr=1.0, warmup=0.2))
    logger = CSVLogger(tmp_path, name="", version="")
    make_trainer(max_steps=10, logger=logger, log_every_n_steps=1, limit_val_batches=0, num_sanity_val_steps=0).fit(
        task, sample
    )
    with (tmp_path / "metrics.csv").open() as file:
        rates = [float(row["train/lr"]) for row in csv.DictReader(file) if row["train/lr"]]
    assert rates == pytest.approx([1e-6, 0.5, 1, 0.875, 0.75, 0.625, 0.5, 0.375, 0.25, 0.125], abs=1e-5)


def test_sanity_check_leaves_no_trace_in_the_scores(task, sample, tmp_path):
    checkpoints = BestAndLast(folder=str(tmp_path))
    trainer = make_trainer(
        max_steps=1, num_sanity_val_steps=2, callbacks=[checkpoints], enable_checkpointing=True, val_check_interval=1.0
    )
    trainer.fit(task, sample)
    reported = trainer.callback_metrics["val/miou"]
    again = make_trainer().validate(task, sample, verbose=False)[0]["val/miou"]
    assert again == pytest.approx(float(reported), abs=1e-7)
    assert float(checkpoints.best_model_score) == float(reported)


def test_logged_keys_are_the_same_whatever_the_data(task, tmp_path):
    keys = []
    for value in (0, 2):
        names = "".join(f"{i} {name}\n" for i, name in enumerate(task.classes.names))
        folders = folder_of(
            tmp_path / str(value), [(np.zeros((20, 24, 3), np.uint8), np.full((20, 24), value, np.uint8))] * 2
        )
        Path(folders["classes"]).write_text(names)
        data = MaskFolder(**folders, num_workers=0)
        keys.append(set(make_trainer().validate(task, data, verbose=False)[0]))
    assert keys[0] == keys[1] == {
        "val/miou", "val/accuracy", "val/mean_accuracy", *(f"val/iou/{name}" for name in task.classes.names)
    }  # fmt: skip


def test_absent_classes_are_named(task, tmp_path, caplog):
    names = "\n".join(task.classes.names)
    folders = folder_of(tmp_path, [(np.zeros((20, 24, 3), np.uint8), np.zeros((20, 24), np.uint8))] * 2)
    Path(folders["classes"]).write_text(names)
    task.model.decoder.conv_seg.bias.data[:] = torch.arange(8.0).neg() * 100
    with caplog.at_level("INFO"):
        scores = make_trainer().validate(task, MaskFolder(**folders, num_workers=0), verbose=False)[0]
    assert scores["val/miou"] == scores["val/iou/sky"] == 1.0
    assert "not in the means: meadow, brick, shutter, tiles, bush, ball, fence" in caplog.text


@pytest.mark.parametrize("batch_size", [2, 3])
def test_validation_images_of_several_sizes_score_alike_in_any_batch(tiny_segmenter, tmp_path, batch_size):
    rng = np.random.default_rng(0)
    pairs = [
        (rng.integers(0, 256, (*size, 3), dtype=np.uint8), rng.integers(0, 3, size, dtype=np.uint8))
        for size in [(32, 48), (48, 32), (40, 40)]
    ]
    folders = folder_of(tmp_path, pairs)
    folders |= {"val_images": folders["images"], "val_masks": folders["masks"]}
    task = SemanticSegmentation(tiny_segmenter(3), ClassList.from_names(["stripe", "ground", "rest"]))
    scores = [
        make_trainer().validate(task, MaskFolder(**folders, num_workers=0, eval_batch_size=size), verbose=False)[0]
        for size in (1, batch_size)
    ]
    assert scores[0]["val/miou"] == pytest.approx(scores[1]["val/miou"], abs=1e-6)


def test_scores_at_the_labels_own_size_and_predicts_what_it_validates(tiny_segmenter, tmp_path):
    rng = np.random.default_rng(1)
    stripes = np.ones((90, 130), np.uint8)
    stripes[:, ::7] = stripes[:, 1::7] = 0
    folders = folder_of(tmp_path, [(rng.integers(0, 256, (90, 130, 3), dtype=np.uint8), stripes)] * 2)
    preprocessing = Preprocessing(resize=(1000, 64), mean=(10.0, 120.0, 200.0), std=(30.0, 60.0, 90.0))
    classes = ClassList.from_names(["stripe", "ground", "rest"])
    task = SemanticSegmentation(tiny_segmenter(3), classes, preprocessing)
    trainer = make_trainer()
    settings = {"preprocessing": preprocessing, "num_workers": 0}
    reported = trainer.validate(task, MaskFolder(**folders, **settings), verbose=False)[0]["val/miou"]
    predicted = make_trainer().predict(task, ImageFolder(folders["images"], **settings))[0][0]
    assert predicted.shape == (90, 130)
    confusion = torch.zeros(3, 3, dtype=torch.int64)
    for label, prediction in zip(stripes.flatten().tolist(), predicted.flatten().tolist(), strict=True):
        confusion[label, prediction] += 1
    assert reported == pytest.approx(float(Scores.from_confusion(confusion).miou), abs=1e-6)


def test_predict_gives_label_maps_of_integers_not_logits(task, tmp_path):
    (tmp_path / "one").mkdir()
    Image.new("RGB", (143, 97)).save(tmp_path / "one" / "a.png")
    (labels,) = make_trainer().predict(task, ImageFolder(str(tmp_path / "one"), num_workers=0))[0]
    assert (labels.dtype, tuple(labels.shape)) == (torch.int64, (97, 143))


def test_classes_that_do_not_fit_the_model_are_refused(tiny_segmenter):
    with pytest.raises(ValueError, match=r"model\.classes must name each of the model's 8 outputs, got 2 names"):
        SemanticSegmentation(tiny_segmenter(8), ClassList.from_names("ab"))


def test_data_with_other_classes_are_refused(task, tmp_path):
    folders = folder_of(tmp_path, [(np.zeros((9, 9, 3), np.uint8), np.zeros((9, 9), np.uint8))] * 2)
    with pytest.raises(ValueError, match="the model has 8, the data have 3; class 0 is 'sky' there and 'stripe' here"):
        make_trainer().validate(task, MaskFolder(**folders, num_workers=0))


def test_checkpoint_is_plain_and_builds_the_task_again(task, sample, tmp_path):
    trainer = make_trainer(max_steps=1, limit_val_batches=0)
    trainer.fit(task, sample)
    trainer.save_checkpoint(tmp_path / "a.ckpt")
    torch.load(tmp_path / "a.ckpt", weights_only=True)
    again = SemanticSegmentation.load_from_checkpoint(tmp_path / "a.ckpt")
    assert again.classes == task.classes
    assert again.preprocessing == task.preprocessing
    images = torch.randn(1, 3, 37, 53)
    with torch.no_grad():
        assert torch.equal(again.eval()(images), task.eval()(images))
    assert SemanticSegmentation.load_from_checkpoint(tmp_path / "a.ckpt", auxiliary_weight=0.1).auxiliary_weight == 0.1


def test_a_model_that_cannot_be_written_down_is_refused_before_training(sample):
    class Bare(nn.Module):
        def __init__(self, channels):
            super().__init__()
            self.feature_specs = (FeatureSpec(channels, 1),)

        def forward(self, images):
            return [images]

    class Head(RecordsSettings, nn.Module):
        stride = 1

        def __init__(self, features, num_classes):
            super().__init__()
            self.conv = nn.Conv2d(3, num_classes, 1)

        def forward(self, features):
            return self.conv(features[0])

    task = SemanticSegmentation(Segmenter(Bare(3), Head, num_classes=8), sample.classes)
    with pytest.raises(ValueError, match="encoder"):
        make_trainer(max_steps=1).fit(task, sample)


def test_a_task_built_in_python_keeps_its_loss_in_the_checkpoint(tiny_segmenter, sample, tmp_path):
    task = SemanticSegmentation(tiny_segmenter(), sample.classes, loss=CrossEntropy(mean="all", label_smoothing=0.1))
    trainer = make_trainer(max_steps=1, limit_val_batches=0)
    trainer.fit(task, sample)
    trainer.save_checkpoint(tmp_path / "a.ckpt")
    loss = SemanticSegmentation.load_from_checkpoint(tmp_path / "a.ckpt").loss
    assert (loss.mean, loss.label_smoothing) == ("all", 0.1)


def test_files_of_other_programs_are_refused(tmp_path):
    torch.save({"state_dict": {}}, tmp_path / "other.ckpt")
    with pytest.raises(ValueError, match=r"other\.ckpt must be a checkpoint of this toolkit"):
        SemanticSegmentation.load_from_checkpoint(tmp_path / "other.ckpt")


@pytest.fixture
def trained(task, sample, tmp_path):
    trainer = make_trainer(max_steps=1, limit_val_batches=0)
    trainer.fit(task, sample)
    trainer.save_checkpoint(tmp_path / "a.ckpt")
    return tmp_path / "a.ckpt"


def test_a_checkpoint_is_as_large_as_weights_and_optimizer_state(trained, task):
    weights = sum(value.numel() * value.element_size() for value in task.state_dict().values())
    moments = 2 * sum(parameter.numel() * parameter.element_size() for parameter in task.parameters())
    overhead = 1000 * (len(task.state_dict()) + 2 * len(list(task.parameters()))) + 100_000
    assert 0 < trained.stat().st_size - weights - moments < overhead


def resumed(task, sample, path, changed) -> None:
    torch.save(changed(torch.load(path, weights_only=True)), path)
    make_trainer(max_steps=2, limit_val_batches=0).fit(task, sample, ckpt_path=path, weights_only=True)


def without_bias(checkpoint):
    del checkpoint["state_dict"]["model.decoder.conv_seg.bias"]
    return checkpoint


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        (
            lambda found: {key: found[key] for key in found if key != SECTION},
            r"a\.ckpt must be a checkpoint of this tool",
        ),
        (lambda found: found | {SECTION: found[SECTION] | {"format_version": 99}}, r"a\.ckpt .*got 99; update"),
        (lambda found: found | {SECTION: found[SECTION] | {"classes": None}}, r"a\.ckpt is damaged: it lacks classes"),
        (without_bias, r"a\.ckpt must hold the weights .*Missing key.*decoder\.conv_seg\.bias"),
    ],
)
def test_a_run_does_not_go_on_from_what_is_no_checkpoint_of_its_model(task, sample, trained, changed, told):
    with pytest.raises(ValueError, match=told):
        resumed(task, sample, trained, changed)


@pytest.mark.parametrize("turned", [lambda names: names[::-1], lambda names: ["cloud", *names[1:]]])
def test_a_run_does_not_go_on_with_the_same_number_of_other_classes(task, sample, trained, turned):
    def changed(found):
        classes = found[SECTION]["classes"]
        return found | {SECTION: found[SECTION] | {"classes": classes | {"names": turned(classes["names"])}}}

    with pytest.raises(ValueError, match=r"the model has 8, the data have 8; class 0 is '\w+' there and 'sky' here"):
        resumed(task, sample, trained, changed)


def test_a_run_goes_on_though_the_files_of_the_data_hold_other_ids(task, sample, trained):
    def changed(found):
        classes = found[SECTION]["classes"]
        return found | {SECTION: found[SECTION] | {"classes": classes | {"ids": list(range(50, 58))}}}

    resumed(task, sample, trained, changed)


def test_a_run_goes_on_from_an_older_format(task, sample, trained, monkeypatch):
    def migrated(found):
        section = found[SECTION] | {"classes": found[SECTION]["labels"]}
        return found | {SECTION: section, "state_dict": {f"model.{k}": v for k, v in found["state_dict"].items()}}

    def older(found):
        section = {"labels" if key == "classes" else key: value for key, value in found[SECTION].items()}
        weights = {key.removeprefix("model."): value for key, value in found["state_dict"].items()}
        return found | {SECTION: section, "state_dict": weights}

    monkeypatch.setattr("src.models.section.FORMAT_VERSION", 2)
    monkeypatch.setitem(MIGRATIONS, 1, migrated)
    resumed(task, sample, trained, older)


def test_a_checkpoint_of_another_class_of_task_is_refused(trained):
    class Other(SemanticSegmentation):
        pass

    with pytest.raises(ValueError, match=r"a\.ckpt .*SemanticSegmentation is no Other"):
        Other.load_from_checkpoint(trained)


def test_a_setting_that_a_newer_release_wrote_is_named(trained):
    found = torch.load(trained, weights_only=True)
    found[SECTION]["task"]["init_args"]["sharpness"] = 3
    torch.save(found, trained)
    with pytest.raises(ValueError, match=r"a\.ckpt .*SemanticSegmentation .*got none called sharpness"):
        SemanticSegmentation.load_from_checkpoint(trained)


def test_data_with_the_same_classes_in_another_order_are_refused(task, tmp_path):
    folders = folder_of(tmp_path, [(np.zeros((9, 9, 3), np.uint8), np.zeros((9, 9), np.uint8))] * 2)
    Path(folders["classes"]).write_text("\n".join(task.classes.names[::-1]))
    with pytest.raises(ValueError, match="the model has 8, the data have 8; class 0 is 'sky' there and 'fence' here"):
        make_trainer().validate(task, MaskFolder(**folders, num_workers=0))


def test_a_loss_that_wants_both_of_one_size_is_pointed_to_the_way(tiny_segmenter):
    classes = ClassList.from_names([f"class {index}" for index in range(8)])
    task = SemanticSegmentation(tiny_segmenter(), classes, loss=torch.nn.CrossEntropyLoss())
    batch = {"images": torch.zeros(2, 3, 32, 32), "masks": torch.zeros(2, 32, 32, dtype=torch.int64)}
    with pytest.raises(RuntimeError) as caught:
        task.losses(batch | {"sizes": [(32, 32)] * 2})
    assert "src.losses.FullSizeLoss wraps" in caught.value.__notes__[0]
