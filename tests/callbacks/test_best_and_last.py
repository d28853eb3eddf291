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


def fit(tmp_path, scores: list[float], **settings) -> BestAndLast:
    callback = BestAndLast(**settings)
    logger = CSVLogger(tmp_path, name="", version="")
    trainer = Trainer(
        max_epochs=len(scores), accelerator="cpu", callbacks=[callback], logger=logger,
        enable_progress_bar=False, enable_model_summary=False, num_sanity_val_steps=0, log_every_n_steps=1,
    )  # fmt: skip
    trainer.fit(Scored(scores), DataLoader([0.0]), DataLoader([0.0]))
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
