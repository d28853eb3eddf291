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
    (tmp_path / "derived.yaml").write_text(
        "panels: {height: '${data.init_args.crop_size}'}\nname: 'crop${data.init_args.crop_size}'\n"
    )
    configs = ["--config", str(tiny_config), "--config", "derived.yaml"]
    assert printed("fit", *configs)["panels"]["height"] == 32
    told = printed("fit", *configs, "--data.crop_size", "48")
    assert (told["panels"]["height"], told["name"]) == (48, "crop48")


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


def test_weights_alone_are_nothing_to_go_on_with(fit, checkpoint):
    whole = torch.load(checkpoint, weights_only=True)
    torch.save({key: value for key, value in whole.items() if key != "optimizer_states"}, "weights.ckpt")
    with pytest.raises(
        ValueError, match=r"got weights\.ckpt with weights alone, without optimizer_states; give the run"
    ):
        fit("--ckpt_path=weights.ckpt")


@pytest.mark.parametrize(
    "flag", ["--trainer.logger=false", "--trainer.enable_checkpointing=false", "--panels.num_images=0"]
)
def test_parts_can_be_left_out(fit, flag):
    assert fit(flag).trainer.global_step == 2
    left_out = {"logger": "metrics.csv", "checkpointing": "*.ckpt", "panels": "panels"}
    there = {part for part, pattern in left_out.items() if list(Path("runs/tiny").glob(f"*/{pattern}"))}
    assert there == {part for part in left_out if part not in flag}


def test_values_are_read_in_every_spelling(tiny_config, printed):
    config = ["--config", str(tiny_config)]
    data = ["--data=src.data.MaskFolder", "--data.images=a", "--data.masks", "m", "--data.classes", "c"]
    told = printed("fit", *config, *data, "--data.ignored_ids", "[11]", "--data.ignored_ids+", "12", "--name=-x")
    assert told["data"]["init_args"]["ignored_ids"] == [11, 12]
    assert told["name"] == "-x"
    told = printed("fit", "--trainer.max_steps", "5", "-c", str(tiny_config), "--trainer.devices", "[0]",
                   "--trainer.max_steps=-1", '--data={"init_args": {"batch_size": 7}}',
                   "--data.preprocessing.resize", "[9,5]", "--data.preprocessing.resize=null")  # fmt: skip
    assert told["trainer"]["devices"] == [0]
    assert told["trainer"]["max_steps"] == -1
    data = told["data"]["init_args"]
    assert (data["batch_size"], data["crop_size"], data["preprocessing"]["resize"]) == (7, 32, None)


def test_a_part_can_be_left_out_by_a_flag(fit):
    model = fit("--model.model.auxiliary", "null", "--trainer.max_steps", "1").model.model
    assert model.auxiliary is None
    assert model.num_classes == 8


def test_references_work_in_flags(tiny_config, printed):
    told = printed("fit", "--config", str(tiny_config), "--panels.height", "${data.init_args.crop_size}",
                   "--data.crop_size=${panels.num_images}", "--panels.num_images", "5")  # fmt: skip
    assert told["panels"] == {"num_images": 5, "height": 5}


@pytest.mark.parametrize(
    ("config", "said"),
    [("broken.yaml", "--config must be YAML, got broken.yaml"), ("list.yaml", "list.yaml with a list")],
)
def test_what_cannot_be_read_is_refused_before_anything_is_built(config, said):
    Path("broken.yaml").write_text("a: [1")
    Path("list.yaml").write_text("- 1")
    with pytest.raises(ValueError, match=re.escape(said)):
        SegmentationCLI("fit", ["--config", config])
    with pytest.raises(FileNotFoundError, match=r"got no\.ckpt, which does not exist"):
        SegmentationCLI("fit", ["--config", "sample.yaml", "--ckpt_path", "no.ckpt"])


def test_what_the_trainer_refuses_is_said_of_the_trainer(fit):
    for flag in ("--trainer.devices=x", "--trainer.accelerator=nothing", "--trainer.barebones=true"):
        with pytest.raises(ValueError, match="the trainer refuses its settings: "):
            fit(flag)


def test_validation_every_few_steps_on_a_small_set_comes_when_it_was_asked_for(fit):
    """Three batches would be an epoch; validation is asked for every five steps."""

    steps = []

    class Steps(Callback):
        def on_validation_end(self, trainer, pl_module):
            steps.append(trainer.global_step)

    class Watched(SegmentationCLI):
        def instantiate_trainer(self, **kwargs):
            trainer = super().instantiate_trainer(**kwargs)
            trainer.callbacks.append(Steps())
            return trainer

    (config,) = Path().glob("tiny.yaml")
    Watched("fit", ["--config", str(config), "--data.batch_size=16", "--trainer.max_steps=20", "--data.crop_size=8",
                    "--trainer.val_check_interval=5", "--trainer.limit_val_batches=1"])  # fmt: skip
    assert steps == [5, 10, 15, 20]


def test_a_run_for_trial_leaves_nothing(fit):
    assert fit("--trainer.fast_dev_run=true").trainer.global_step == 1
    assert not Path("runs").exists()


def test_a_finished_run_says_that_nothing_is_left_to_train(checkpoint, fit, capsys):
    run = str(Path(checkpoint).parent)
    fit("--ckpt_path", run)
    said = capsys.readouterr().err
    assert f"note: --ckpt_path {run} is {run}/last.ckpt" in said
    assert "note: nothing was left to train: the checkpoint has 2 steps already" in said
    assert fit("--ckpt_path", "last", "--trainer.max_steps", "3").trainer.global_step == 3
    assert "nothing was left" not in capsys.readouterr().err


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
