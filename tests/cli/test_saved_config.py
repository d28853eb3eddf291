from pathlib import Path

import pytest
import yaml


def files(pattern: str) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in Path().glob(pattern)}


@pytest.mark.parametrize(
    "flags",
    [
        ["--trainer.default_root_dir=out"],
        ["--trainer.default_root_dir=out", "--trainer.logger=false"],
        [
            "--runs=out",
            "--trainer.logger=lightning.pytorch.loggers.CSVLogger",
            "--trainer.logger.save_dir=logs",
            "--trainer.logger.version=mine",
        ],
    ],
)
def test_a_second_run_leaves_the_first_as_it_is(fit, flags):
    first = fit(*flags)
    before = files("out/**/*.yaml") | files("out/**/*.ckpt")
    assert {Path(name).name for name in before} >= {"config.yaml", "best.ckpt", "last.ckpt"}
    fit(*flags, "--trainer.max_steps=1")
    resumed = fit(*flags, "--ckpt_path", "out", "--trainer.max_steps=3")
    assert (first.trainer.global_step, resumed.trainer.global_step) == (2, 3)
    after = files("out/**/*.yaml") | files("out/**/*.ckpt")
    assert {name: after[name] for name in before} == before
    configs = [name for name in after if name.endswith("config.yaml")]
    assert sorted(yaml.safe_load(after[name])["trainer"]["max_steps"] for name in configs) == [1, 2, 3]
    assert {Path(name).parent.parent for name in configs} == {Path("out/tiny")}


def test_checkpoints_of_another_run_are_not_replaced_even_where_the_folder_is_told(fit):
    fit("--checkpoint.folder=kept")
    before = files("kept/*.ckpt")
    assert len(before) == 2
    with pytest.raises(ValueError, match=r"must be a folder without checkpoints of another run, got .*kept; give"):
        fit("--checkpoint.folder=kept")
    assert files("kept/*.ckpt") == before


def test_a_part_from_a_file_of_its_own_is_saved_as_what_it_says(fit):
    Path("trainer.yaml").write_text("max_steps: 1\naccelerator: cpu\nenable_progress_bar: false\n")
    fit("--trainer=trainer.yaml")
    (saved,) = Path("runs/tiny").glob("*/config.yaml")
    assert [path.name for path in saved.parent.glob("*.yaml") if path.name != "hparams.yaml"] == ["config.yaml"]
    assert yaml.safe_load(saved.read_text())["trainer"]["max_steps"] == 1


def test_the_config_is_there_before_the_first_step(fit):
    with pytest.raises(ValueError, match="the loss must be finite"):
        fit("--model.optimizer.lr=1e30", "--model.optimizer.warmup=0", "--trainer.max_steps=6")
    assert len(list(Path("runs/tiny").glob("*/config.yaml"))) == 1
