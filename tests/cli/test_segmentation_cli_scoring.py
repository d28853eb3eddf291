import csv
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from src.cli import SegmentationCLI
from src.inference.checkpoint import read_checkpoint


def test_validate_and_test_score_with_the_same_code_and_write_the_table(checkpoint, tiny_config, capsys):
    arguments = ["--config", str(tiny_config), "--ckpt_path", checkpoint]
    validated = SegmentationCLI("validate", arguments).trainer
    tested = SegmentationCLI("test", arguments).trainer
    val, test = validated.callback_metrics, tested.callback_metrics
    assert {name.partition("/")[2]: float(value) for name, value in val.items()} == pytest.approx(
        {name.partition("/")[2]: float(value) for name, value in test.items()}, nan_ok=True
    )
    assert Path(tested.log_dir).parent == Path("runs/tiny-test")
    with Path(tested.log_dir, "classes.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["class"] for row in rows] == list(read_checkpoint(checkpoint).classes.names)
    for row in rows:
        score = float(test[f"test/iou/{row['class']}"])
        assert row["iou"] == ("" if score != score else f"{score:.4f}")
    assert f"table of the classes: {tested.log_dir}/classes.csv" in capsys.readouterr().out


def test_predict_needs_a_checkpoint_and_images_alone(checkpoint, sample_root):
    images = sample_root / "images" / "validation"
    cli = SegmentationCLI(
        "predict",
        ["--ckpt_path", checkpoint, "--data.images", str(images), "--output", "masks", "--data.num_workers", "0"],
    )
    assert sorted(p.stem for p in Path("masks").glob("*.png")) == sorted(p.stem for p in images.iterdir())
    for path in images.iterdir():
        with Image.open(path) as image, Image.open(Path("masks", path.stem + ".png")) as mask:
            assert mask.size == image.size
    assert cli.trainer.predict_loop.predictions == []
    assert cli.trainer.predict_loop.return_predictions is False


def test_predicts_what_validate_scores_with_settings_from_the_checkpoint(fit, sample_root):
    flags = ["--data.preprocessing.resize", "[200,60]", "--data.preprocessing.mean", "[90,100,110]"]
    checkpoint = fit(*flags).trainer.checkpoint_callback.best_model_path
    SegmentationCLI(
        "predict",
        ["--ckpt_path", checkpoint, "--data", "src.data.Sample", "--data.root", str(sample_root), "--output", "masks"],
    )
    confusion = np.zeros((8, 8), np.int64)
    config = Path(checkpoint).with_name("config.yaml")
    validated = SegmentationCLI(
        "validate", ["--config", str(config), "--ckpt_path", checkpoint, "--trainer.limit_val_batches", "1.0"]
    )
    for path in sorted(Path("masks").glob("*.png")):
        annotation = sample_root / "annotations" / "validation" / path.name
        label, prediction = np.asarray(Image.open(annotation)), np.asarray(Image.open(path))
        labelled = label > 0
        np.add.at(confusion, (label[labelled] - 1, prediction[labelled] - 1), 1)
    union = confusion.sum(0) + confusion.sum(1) - confusion.diagonal()
    miou = np.mean([both / either for both, either in zip(confusion.diagonal(), union, strict=True) if either])
    assert float(validated.trainer.callback_metrics["val/miou"]) == pytest.approx(miou, abs=1e-6)


def test_scores_the_checkpoints_model_and_preprocessing_whatever_the_config_says(fit, tiny_config, printed):
    flags = [
        "--model.model.encoder.embed_dim=16",
        "--model.model.decoder.channels=4",
        "--data.preprocessing.resize=[99,9]",
    ]
    checkpoint = fit(*flags).trainer.checkpoint_callback.best_model_path
    arguments = ["validate", "--config", str(tiny_config), "--ckpt_path", checkpoint]

    def told(*flags: str) -> tuple:
        config = printed(*arguments, *flags)
        model = config["model"]["init_args"]["model"]["init_args"]
        parts = [model[part]["init_args"][key] for part, key in (("encoder", "embed_dim"), ("decoder", "channels"))]
        return (
            *parts,
            config["data"]["init_args"]["preprocessing"]["resize"],
            config["data"]["init_args"]["crop_size"],
        )

    assert told() == (16, 4, [99, 9], 32)
    assert told("--data.preprocessing.resize=[50,5]", "--model.model.decoder.channels=6") == (16, 6, [50, 5], 32)
    assert SegmentationCLI(*arguments[:1], arguments[1:]).trainer.callback_metrics["val/accuracy"] >= 0


def test_checkpoints_are_read_without_running_code(checkpoint):
    torch.load(checkpoint, weights_only=True)


def test_class_names_of_every_kind_train_score_and_predict(tiny_config, sample_root, capsys):
    names = ["🌿 leaf", "[/b]", "a/b", "null", "1e3", "[red]x", "Straße", "'q\"q'"]
    Path("classes.txt").write_text("".join(f"{number} {name}\n" for number, name in enumerate(names, start=1)))
    folders = [f"--data.{kind}={sample_root}/{place}/validation" for kind, place in
               (("images", "images"), ("masks", "annotations"))]  # fmt: skip
    data = ["--data=src.data.MaskFolder", *folders, "--data.classes=classes.txt", "--data.ignored_ids=[0]"]
    data += ["--data.num_workers=0"]
    fitted = SegmentationCLI("fit", ["--config", str(tiny_config), *data, "--data.crop_size=32"])
    best = f"{fitted.trainer.log_dir}/best.ckpt"
    capsys.readouterr()
    SegmentationCLI("validate", [f"--ckpt_path={best}", *data])
    shown = capsys.readouterr().out
    assert [name for name in names if name not in shown] == []
    predicting = [f"--ckpt_path={best}", f"--data.images={sample_root}/images/validation", "--output=masks"]
    assert SegmentationCLI("predict", predicting).model.classes.names == tuple(names)
