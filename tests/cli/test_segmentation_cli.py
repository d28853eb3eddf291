import csv
import re
from pathlib import Path

import pytest
import torch
from lightning.pytorch import Callback, LightningModule, Trainer

from src.cli import SegmentationCLI


class StopAfterValidation(Callback):
    """Ends a run at its first validation, as if somebody had stopped it."""

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        trainer.should_stop = True


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
def test_flags_win_wherever_they_stand(tiny_config, printed, flags_first):
    flag, config = ["--trainer.max_steps=3"], ["--config", str(tiny_config)]
    arguments = [*flag, *config] if flags_first else [*config, *flag]
    assert printed("fit", *arguments)["trainer"]["max_steps"] == 3


def test_a_later_config_wins_over_an_earlier_one(tiny_config, printed, tmp_path):
    (tmp_path / "more.yaml").write_text("trainer: {max_steps: 7}\ndata: {init_args: {batch_size: 5}}\n")
    config = printed("fit", "--config", str(tiny_config), "--config", "more.yaml")
    assert config["trainer"]["max_steps"] == 7
    assert config["data"]["init_args"]["batch_size"] == 5
    assert config["data"]["init_args"]["crop_size"] == 32


def test_references_follow_other_files_and_flags(tiny_config, printed, tmp_path):
    (tmp_path / "derived.yaml").write_text("panels: {height: '${data.init_args.crop_size}'}\n")
    configs = ["--config", str(tiny_config), "--config", "derived.yaml"]
    assert printed("fit", *configs)["panels"]["height"] == 32
    assert printed("fit", *configs, "--data.crop_size", "48")["panels"]["height"] == 48


@pytest.mark.parametrize(
    "length", [["--trainer.max_steps=4"], ["--trainer.max_steps=-1", "--trainer.max_epochs=2", "--data.batch_size=12"]]
)
def test_an_interrupted_and_resumed_run_ends_with_the_weights_of_an_uninterrupted_one(fit, length):
    flags = ["--model.model.encoder.drop_path_rate=0.5", "--trainer.val_check_interval=0.5", *length]
    whole = fit(*flags)
    stopped = fit(*flags, "--trainer.callbacks=tests.cli.test_segmentation_cli.StopAfterValidation")
    assert stopped.trainer.global_step == 2
    resumed = fit(*flags, "--ckpt_path", f"{stopped.trainer.log_dir}/last.ckpt")
    assert resumed.trainer.global_step == whole.trainer.global_step
    for name, weight in whole.model.state_dict().items():
        assert torch.equal(weight, resumed.model.state_dict()[name]), name


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
        (["fit"], "--config must be given to fit"),
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


def test_a_loss_that_is_not_finite_ends_the_run(fit):
    with pytest.raises(ValueError, match=r"the loss must be finite, got nan at step \d+.*lower model\.optimizer\.lr"):
        fit("--model.optimizer.lr=1e30", "--model.optimizer.warmup=0", "--trainer.max_steps=6")


def test_a_progress_bar_of_ones_own_replaces_ours(fit):
    bar = "lightning.pytorch.callbacks.TQDMProgressBar"
    trainer = fit("--trainer.enable_progress_bar=true", f"--trainer.callbacks={bar}").trainer
    assert type(trainer.progress_bar_callback).__name__ == "TQDMProgressBar"


def test_training_without_validation_leaves_the_last_checkpoint(fit):
    run = Path(str(fit("--trainer.limit_val_batches=0", "--trainer.log_every_n_steps=50").trainer.log_dir))
    assert [path.name for path in run.glob("*.ckpt")] == ["last.ckpt"]


def test_a_run_that_logs_nothing_trains(fit):
    assert fit("--trainer.log_every_n_steps=0").trainer.global_step == 2
