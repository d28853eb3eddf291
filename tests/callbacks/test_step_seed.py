import torch
from lightning.pytorch import LightningModule, Trainer
from torch.utils.data import DataLoader

from src.callbacks import StepSeed


class Draws(LightningModule):
    """Keeps one random number of every batch."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(()))
        self.seen: list[float] = []

    def training_step(self, batch, batch_idx):
        self.seen.append(torch.rand(()).item())
        return self.weight * 1.0

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=1.0)


def draws(seed: int, rank: int = 0, before: int = 0, monkeypatch=None) -> list[float]:
    torch.manual_seed(before)
    trainer = Trainer(
        max_epochs=2, accelerator="cpu", callbacks=[StepSeed(seed)], logger=False, enable_checkpointing=False,
        enable_progress_bar=False, enable_model_summary=False,
    )  # fmt: skip
    if rank:
        monkeypatch.setattr(Trainer, "global_rank", rank)
    module = Draws()
    trainer.fit(module, DataLoader([0.0] * 3))
    return module.seen


def test_draws_follow_from_seed_process_and_batch_alone(monkeypatch):
    first = draws(seed=0)
    assert len(set(first)) == 6
    assert draws(seed=0, before=99) == first
    assert not set(draws(seed=1)) & set(first)
    assert not set(draws(seed=0, rank=1, monkeypatch=monkeypatch)) & set(first)
