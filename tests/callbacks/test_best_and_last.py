import shutil

import pytest
import torch
from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.loggers import CSVLogger
from torch.utils.data import DataLoader

from src.callbacks import BestAndLast


class Scored(LightningModule):
    """Reaches the given scores in its validations, one after another."""

    def __init__(self, scores: list[float]) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(()))
        self.scores = iter(scores)

    def training_step(self, batch, batch_idx):
        return self.weight * 1.0

    def validation_step(self, batch, batch_idx):
        pass

    def on_validation_epoch_end(self):
        self.log("val/miou", next(self.scores))

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=1.0)


def fit(tmp_path, scores: list[float], resume: str | None = None, **settings) -> BestAndLast:
    callback = BestAndLast(**settings)
    logger = CSVLogger(tmp_path, name="", version="")
    trainer = Trainer(
        max_epochs=len(scores) + (2 if resume else 0), accelerator="cpu", callbacks=[callback], logger=logger,
        enable_progress_bar=False, enable_model_summary=False, num_sanity_val_steps=0, log_every_n_steps=1,
    )  # fmt: skip
    trainer.fit(Scored(scores), DataLoader([0.0]), DataLoader([0.0]), ckpt_path=resume, weights_only=True)
    return callback


def steps(path) -> int:
    return torch.load(path, weights_only=True)["global_step"]


def test_keeps_the_best_and_the_last_in_the_runs_folder(tmp_path):
    fit(tmp_path, [0.1, 0.5, 0.3])
    assert sorted(path.name for path in tmp_path.glob("*.ckpt")) == ["best.ckpt", "last.ckpt"]
    assert (steps(tmp_path / "best.ckpt"), steps(tmp_path / "last.ckpt")) == (2, 3)


def test_lower_is_better_on_request(tmp_path):
    fit(tmp_path, [0.1, 0.5, 0.3], mode="min")
    assert steps(tmp_path / "best.ckpt") == 1


def test_another_folder_on_request(tmp_path):
    fit(tmp_path / "log", [0.1], folder=str(tmp_path / "elsewhere"))
    assert (tmp_path / "elsewhere" / "best.ckpt").is_file()


@pytest.mark.parametrize("folder", ["same", "other"])
def test_a_resumed_run_keeps_the_best_until_it_is_beaten(tmp_path, folder):
    """Two epochs reach 0.1 and 0.9; going on with 0.3 must not replace the best, going on with 0.95 must."""
    fit(tmp_path / "same", [0.1, 0.9])
    start = shutil.copy(tmp_path / "same" / "last.ckpt", tmp_path / "start.ckpt")
    last = torch.load(start, weights_only=True)
    (state,) = [state for name, state in last["callbacks"].items() if name.startswith("BestAndLast")]
    assert float(state["best_model_score"]) == pytest.approx(0.9)
    goes_on = fit(tmp_path / folder, [0.3], resume=str(start))
    assert steps(tmp_path / folder / "best.ckpt") == 2
    assert float(goes_on.best_model_score) == pytest.approx(0.9)
    assert goes_on.best_model_path == str(tmp_path / folder / "best.ckpt")
    fit(tmp_path / folder, [0.95], resume=str(start))
    assert steps(tmp_path / folder / "best.ckpt") == 3


def test_without_validation_the_last_is_written_at_the_end(tmp_path):
    callback = BestAndLast()
    trainer = Trainer(
        max_epochs=2, accelerator="cpu", callbacks=[callback], logger=CSVLogger(tmp_path, name="", version=""),
        enable_progress_bar=False, enable_model_summary=False,
    )  # fmt: skip
    trainer.fit(Scored([]), DataLoader([0.0]))
    assert [path.name for path in tmp_path.glob("*.ckpt")] == ["last.ckpt"]
    assert steps(tmp_path / "last.ckpt") == 2
