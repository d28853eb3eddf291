import csv
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml
from lightning.pytorch import Callback, LightningModule, Trainer
from PIL import Image

from src.cli import SegmentationCLI
from src.cli.command_line import CONFIGS, arranged, checkpoint_path, find_config
from src.cli.run_folder import make_run_folder
from src.cli.whole_checkpoints import WholeCheckpoints
from src.inference.checkpoint import read_checkpoint

ROOT = Path(__file__).parents[1]


class StopAfterValidation(Callback):
    """Ends a run at its first validation, as if somebody had stopped it."""

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        trainer.should_stop = True


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["src"])
    return tmp_path


@pytest.fixture
def fit(tiny_config):
    return lambda *arguments: SegmentationCLI("fit", ["--config", str(tiny_config), *arguments])


@pytest.fixture
def checkpoint(fit) -> str:
    return fit().trainer.checkpoint_callback.best_model_path


def run_python(module: str, arguments: list[str], check: bool = True) -> subprocess.CompletedProcess[str]:
    """A command in a process of its own, in the working directory."""
    return subprocess.run(
        [sys.executable, "-m", module, *arguments],
        check=check, timeout=120, capture_output=True, text=True, env=os.environ | {"PYTHONPATH": str(ROOT)},
    )  # fmt: skip


def printed(capsys, *arguments: str) -> dict:
    with pytest.raises(SystemExit) as end:
        SegmentationCLI(arguments[0], [*arguments[1:], "--print_config"])
    assert end.value.code == 0
    return yaml.safe_load(capsys.readouterr().out)


def test_fit_leaves_checkpoints_logs_panels_curves_and_config_in_the_runs_folder(fit):
    run = Path(fit().trainer.log_dir)
    assert run.parts[:2] == ("runs", "tiny")
    names = {path.relative_to(run).as_posix() for path in run.rglob("*") if path.is_file()}
    assert {"best.ckpt", "last.ckpt", "metrics.csv", "curves.png", "config.yaml"} < names
    assert any(name.startswith("panels/") for name in names)
    assert any(name.startswith("events.out.tfevents") for name in names)
    with (run / "metrics.csv").open() as file:
        columns = csv.DictReader(file).fieldnames or []
    assert {"train/loss", "train/lr", "val/miou", "val/iou/sky"} <= set(columns)


def test_a_second_run_has_a_folder_of_its_own(fit):
    assert len({fit().trainer.log_dir, fit().trainer.log_dir}) == 2


def test_saved_config_runs_again_and_keeps_the_name(fit):
    first = fit("--model.optimizer.lr", "0.01").trainer
    again = SegmentationCLI("fit", ["--config", f"{first.log_dir}/config.yaml"])
    assert Path(again.trainer.log_dir).parent == Path(first.log_dir).parent
    assert again.model.optimizer.lr == 0.01
    assert again.trainer.callback_metrics["train/loss"] == first.callback_metrics["train/loss"]


def test_class_count_and_list_come_from_the_data_whatever_flags_say_of_the_model(fit):
    for flags in ([], ["--model.model.encoder.embed_dim", "16"]):
        model = fit("--trainer.max_steps", "1", *flags).model
        assert model.model.num_classes == 8
        assert model.classes.names[0] == "sky"


def test_another_class_count_than_the_datas_is_refused(fit):
    with pytest.raises(ValueError, match=r"model\.model\.num_classes must be the data's number of classes, 8, got 5"):
        fit("--model.model.num_classes", "5")
    assert fit("--model.model.num_classes", "8", "--trainer.max_steps", "1").trainer.global_step == 1


@pytest.mark.parametrize("flags_first", [True, False])
def test_flags_win_wherever_they_stand(tiny_config, capsys, flags_first):
    flag, config = ["--trainer.max_steps=3"], ["--config", str(tiny_config)]
    arguments = [*flag, *config] if flags_first else [*config, *flag]
    assert printed(capsys, "fit", *arguments)["trainer"]["max_steps"] == 3


def test_a_later_config_wins_over_an_earlier_one(tiny_config, capsys, tmp_path):
    (tmp_path / "more.yaml").write_text("trainer: {max_steps: 7}\ndata: {init_args: {batch_size: 5}}\n")
    config = printed(capsys, "fit", "--config", str(tiny_config), "--config", "more.yaml")
    assert config["trainer"]["max_steps"] == 7
    assert config["data"]["init_args"]["batch_size"] == 5
    assert config["data"]["init_args"]["crop_size"] == 32


def test_references_follow_other_files_and_flags(tiny_config, capsys, tmp_path):
    (tmp_path / "derived.yaml").write_text("panels: {height: '${data.init_args.crop_size}'}\n")
    configs = ["--config", str(tiny_config), "--config", "derived.yaml"]
    assert printed(capsys, "fit", *configs)["panels"]["height"] == 32
    assert printed(capsys, "fit", *configs, "--data.crop_size", "48")["panels"]["height"] == 48


def test_configs_are_found_as_given_first_then_beside_the_package(tmp_path):
    assert find_config("sample.yaml") == CONFIGS / "sample.yaml"
    assert find_config("model/small.yaml") == CONFIGS / "model" / "small.yaml"
    (tmp_path / "sample.yaml").write_text("{}")
    assert find_config("sample.yaml") == Path("sample.yaml")
    with pytest.raises(FileNotFoundError, match=r"got 'no\.yaml'; there are: .*ade20k\.yaml.*model/small\.yaml"):
        find_config("no.yaml")


def test_the_subcommand_and_configs_come_first():
    config = str(CONFIGS / "sample.yaml")
    words = ["fit", "--a", "1", "--config", "sample.yaml", "--b=2", "-c", "sample.yaml", "--config=sample.yaml"]
    assert arranged(words) == ["fit", *[f"--config={config}"] * 3, "--a", "1", "--b=2"]
    assert arranged(["--help"]) == ["--help"]


def test_the_checkpoint_is_the_last_that_is_named(tmp_path):
    (tmp_path / "a.yaml").write_text("ckpt_path: a.ckpt")
    (tmp_path / "b.yaml").write_text("ckpt_path: null")
    assert checkpoint_path(["predict", "--config=a.yaml", "--config=b.yaml"]) == "a.ckpt"
    assert checkpoint_path(["predict", "--config=a.yaml", "--ckpt_path", "b.ckpt"]) == "b.ckpt"
    assert checkpoint_path(["predict", "--ckpt_path=c.ckpt"]) == "c.ckpt"
    assert checkpoint_path(["fit"]) is None


def test_run_folders_do_not_meet(tmp_path):
    first, second = make_run_folder("r", "n"), make_run_folder("r", "n")
    assert first != second
    assert first.is_dir()
    assert second.is_dir()
    assert first.parent == second.parent == Path("r/n")


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
    assert sorted(p.stem for p in Path("masks").iterdir()) == sorted(p.stem for p in images.iterdir())
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
    for path in sorted(Path("masks").iterdir()):
        annotation = sample_root / "annotations" / "validation" / path.name
        label, prediction = np.asarray(Image.open(annotation)), np.asarray(Image.open(path))
        labelled = label > 0
        np.add.at(confusion, (label[labelled] - 1, prediction[labelled]), 1)
    union = confusion.sum(0) + confusion.sum(1) - confusion.diagonal()
    miou = np.mean([both / either for both, either in zip(confusion.diagonal(), union, strict=True) if either])
    assert float(validated.trainer.callback_metrics["val/miou"]) == pytest.approx(miou, abs=1e-6)


def test_scores_the_checkpoints_model_and_preprocessing_whatever_the_config_says(fit, tiny_config, capsys):
    flags = [
        "--model.model.encoder.embed_dim=16",
        "--model.model.decoder.channels=4",
        "--data.preprocessing.resize=[99,9]",
    ]
    checkpoint = fit(*flags).trainer.checkpoint_callback.best_model_path
    arguments = ["validate", "--config", str(tiny_config), "--ckpt_path", checkpoint]

    def told(*flags: str) -> tuple:
        config = printed(capsys, *arguments, *flags)
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


@pytest.mark.parametrize(
    "length", [["--trainer.max_steps=4"], ["--trainer.max_steps=-1", "--trainer.max_epochs=2", "--data.batch_size=12"]]
)
def test_an_interrupted_and_resumed_run_ends_with_the_weights_of_an_uninterrupted_one(fit, length):
    flags = ["--model.model.encoder.drop_path_rate=0.5", "--trainer.val_check_interval=0.5", *length]
    whole = fit(*flags)
    stopped = fit(*flags, "--trainer.callbacks=tests.test_cli.StopAfterValidation")
    assert stopped.trainer.global_step == 2
    resumed = fit(*flags, "--ckpt_path", f"{stopped.trainer.log_dir}/last.ckpt")
    assert resumed.trainer.global_step == whole.trainer.global_step
    for name, weight in whole.model.state_dict().items():
        assert torch.equal(weight, resumed.model.state_dict()[name]), name


def test_a_checkpoint_that_cannot_be_written_leaves_the_one_before(checkpoint, monkeypatch):
    def broken(value, path):
        Path(path).write_bytes(b"half")
        raise OSError("no space left")

    before = Path(checkpoint).read_bytes()
    monkeypatch.setattr(torch, "save", broken)
    with pytest.raises(OSError, match="no space left"):
        WholeCheckpoints().save_checkpoint({"step": 1}, checkpoint)
    assert Path(checkpoint).read_bytes() == before
    assert not list(Path(checkpoint).parent.glob(".*part"))


def test_checkpoints_are_read_without_running_code(checkpoint):
    torch.load(checkpoint, weights_only=True)


@pytest.mark.parametrize(
    "flag", ["--trainer.logger=false", "--trainer.enable_checkpointing=false", "--panels.num_images=0"]
)
def test_parts_can_be_left_out(fit, flag):
    assert fit(flag).trainer.global_step == 2
    left_out = {"logger": "metrics.csv", "checkpointing": "*.ckpt", "panels": "panels"}
    there = {part for part, pattern in left_out.items() if list(Path("runs/tiny").glob(f"*/{pattern}"))}
    assert there == {part for part in left_out if part not in flag}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--config", "no.yaml"], "error: --config must be a YAML file"),
        (["--config", "custom_masks.yaml", "--data.classes", "no.txt"], "error: data.classes must be a text file"),
        (["--config", "sample.yaml", "--data.crop_size", "0"], "error: data.crop_size must be at least 1, got 0"),
    ],
)
def test_what_is_wrong_is_said_in_a_line_without_a_traceback(arguments, said):
    result = run_python("src.fit", arguments, check=False)
    assert result.returncode == 1
    assert said in result.stderr
    assert "Traceback" not in result.stderr


def test_what_a_worker_says_of_a_file_is_said_in_a_line(tiny_config, sample_root, tmp_path):
    shutil.copytree(sample_root, tmp_path / "bad")
    path = sorted((tmp_path / "bad" / "annotations" / "validation").iterdir())[0]
    Image.fromarray(np.full_like(np.asarray(Image.open(path)), 77)).save(path)
    flags = ["--data.root", str(tmp_path / "bad"), "--data.num_workers", "1"]
    result = run_python("src.fit", [f"--config={tiny_config}", *flags], check=False)
    assert result.returncode == 1
    assert "Traceback" not in result.stderr
    said = result.stderr.splitlines()[-1]
    assert said.startswith("error: ")
    assert path.name in said
    assert "77" in said


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
    assert all(name in capsys.readouterr().out for name in names[:1])
    predicting = [f"--ckpt_path={best}", f"--data.images={sample_root}/images/validation", "--output=masks"]
    assert SegmentationCLI("predict", predicting).model.classes.names == tuple(names)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["predict", "--data.images", ".", "--output", "m"], "--ckpt_path must be given to predict"),
        (["validate", "--config", "sample.yaml"], "--ckpt_path must be given to validate"),
        (["fit", "--config", "sample.yaml", "--ckpt_path", "no.ckpt"], "must be a checkpoint file, got no.ckpt"),
        (["fit", "--config", "broken.yaml"], "--config must be YAML, got broken.yaml"),
        (["fit", "--config", "list.yaml"], "--config must hold keys and values, got list.yaml with list"),
    ],
)
def test_what_cannot_be_read_is_refused_before_anything_is_built(arguments, said):
    Path("broken.yaml").write_text("a: [1")
    Path("list.yaml").write_text("- 1")
    with pytest.raises((ValueError, FileNotFoundError), match=re.escape(said)):
        SegmentationCLI(arguments[0], arguments[1:])


def test_resuming_on_other_classes_or_another_model_is_refused(checkpoint, fit):
    with pytest.raises(ValueError, match=r"ckpt_path must hold the model that the config describes.*embed_dim"):
        fit("--ckpt_path", checkpoint, "--model.model.encoder.embed_dim", "16")


def test_a_loss_that_is_not_finite_ends_the_run_and_keeps_the_last_good_checkpoint(fit):
    with pytest.raises(ValueError, match=r"the loss must be finite, got nan at step \d+.*lower model\.optimizer\.lr"):
        fit("--model.optimizer.lr=1e30", "--model.optimizer.warmup=0", "--trainer.max_steps=6")


def test_a_progress_bar_of_ones_own_replaces_ours(fit):
    bar = "lightning.pytorch.callbacks.TQDMProgressBar"
    trainer = fit("--trainer.enable_progress_bar=true", f"--trainer.callbacks={bar}").trainer
    assert type(trainer.progress_bar_callback).__name__ == "TQDMProgressBar"


def test_training_without_validation_leaves_the_last_checkpoint(fit):
    run = Path(str(fit("--trainer.limit_val_batches=0", "--trainer.log_every_n_steps=50").trainer.log_dir))
    assert [path.name for path in run.glob("*.ckpt")] == ["last.ckpt"]


def test_another_package_called_src_is_named(tmp_path):
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "__init__.py").touch()
    code = f"import sys; sys.path.append('{tmp_path}'); sys.argv = ['src', '--help']; from src.cli import main; main()"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert f"the other one in {tmp_path} is not used" in result.stderr
    assert "usage" in result.stdout


def test_two_processes_log_the_same_keys_and_the_scores_of_one(checkpoint, tmp_path):
    """One process sees two classes, the other a third; both must log all, and the numbers of a single process."""
    for index, value in enumerate((1, 3, 2, 3)):
        for kind, pixels in (("images", np.full((20, 24, 3), 60 * value)), ("annotations", np.full((20, 24), value))):
            path = tmp_path / "two" / kind / "validation" / f"{index}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(pixels.astype(np.uint8)).save(path)
    tables = []
    for flags in ([], ["--trainer.devices=2", "--trainer.strategy=ddp"]):
        config = Path(checkpoint).with_name("config.yaml")
        arguments = [f"--config={config}", f"--ckpt_path={checkpoint}", f"--data.root={tmp_path}/two", *flags]
        arguments += ["--trainer.limit_val_batches=1.0", f"--name=processes{len(flags)}"]
        run_python("src.validate", arguments)
        tables.append([path.read_text() for path in Path(f"runs/processes{len(flags)}").rglob("classes.csv")])
    assert len(tables[0]) == 1
    assert tables[0] == tables[1]
    assert [row.split(",")[3] for row in tables[0][0].splitlines()[1:4]] == ["480", "480", "960"]


def test_two_processes_train_and_predict_each_image_once(tiny_config, sample_root):
    two = ["--trainer.devices=2", "--trainer.strategy=ddp", "--trainer.accelerator=cpu"]
    run_python("src.fit", [f"--config={tiny_config}", *two])
    (best,) = Path("runs/tiny").glob("*/best.ckpt")
    images = sample_root / "images" / "validation"
    arguments = [f"--ckpt_path={best}", f"--data.images={images}", "--output=masks", *two]
    run_python("src.predict", arguments)
    assert sorted(path.stem for path in Path("masks").iterdir()) == sorted(path.stem for path in images.iterdir())
