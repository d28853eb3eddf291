from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import pytest
import torch
from drawn_files import mask_folders

from src.data import Batch, MaskFolder


class Recorder(pl.LightningModule):
    """Notes which samples it is given."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(1))
        self.seen: list[float] = []

    def training_step(self, batch: Batch, batch_idx: int) -> torch.Tensor:
        self.seen += [float(image.double().sum()) for image in batch["images"]]
        return self.weight.sum()

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), 0.1)


def data(root: Path, num_workers: int = 0) -> MaskFolder:
    return MaskFolder(**mask_folders(root, [(20, 30)] * 6), crop_size=16, batch_size=2, num_workers=num_workers)


def trainer(root: Path, **arguments: Any) -> pl.Trainer:
    return pl.Trainer(
        accelerator="cpu", logger=False, enable_checkpointing=False, enable_progress_bar=False, default_root_dir=root,
        enable_model_summary=False, use_distributed_sampler=False, limit_val_batches=0, **arguments,
    )  # fmt: skip


@pytest.mark.parametrize("num_workers", [0, 2])
def test_state_counts_what_was_taken_and_is_used_once(tmp_path: Path, num_workers: int):
    loader = data(tmp_path, num_workers).train_dataloader()
    loader.sampler.set_epoch(1)
    batches = [batch["images"] for batch in loader]
    iterator = iter(loader)
    next(iterator)
    state = loader.state_dict()
    assert state == {"epoch": 1, "taken": 2}
    other = data(tmp_path, num_workers).train_dataloader()
    other.load_state_dict(state)
    rest = [batch["images"] for batch in other]
    assert [torch.equal(*pair) for pair in zip(rest, batches[1:], strict=True)] == [True] * len(rest)
    assert len(list(other)) == len(batches)


class PowerFailedError(Exception):
    """The run ended in between."""


class Interrupt(pl.Callback):
    def __init__(self, path: Path) -> None:
        self.path = path

    def on_train_batch_end(self, trainer: pl.Trainer, *_: Any) -> None:
        if trainer.global_step == 5:
            trainer.save_checkpoint(self.path)
            raise PowerFailedError


@pytest.mark.filterwarnings("ignore:You passed in a `val_dataloader`")
@pytest.mark.parametrize("length", [{"max_steps": 8}, {"max_epochs": 4}], ids=["steps", "epochs"])
@pytest.mark.parametrize("num_workers", [0, 2])
def test_a_resumed_run_sees_what_an_uninterrupted_one_sees(tmp_path: Path, length: dict, num_workers: int):
    uninterrupted, first, second = Recorder(), Recorder(), Recorder()
    trainer(tmp_path, **length).fit(uninterrupted, data(tmp_path))
    path = tmp_path / "stopped.ckpt"
    with pytest.raises(PowerFailedError):
        trainer(tmp_path, **length, callbacks=[Interrupt(path)]).fit(first, data(tmp_path, num_workers))
    trainer(tmp_path, **length).fit(second, data(tmp_path, num_workers), ckpt_path=path, weights_only=True)
    assert len(first.seen) == 10
    assert first.seen + second.seen == uninterrupted.seen


def test_validation_comes_at_fractions_of_the_run(tmp_path: Path):
    class Checked(Recorder):
        def __init__(self) -> None:
            super().__init__()
            self.steps: list[int] = []

        def validation_step(self, batch: Batch, batch_idx: int) -> None:
            if batch_idx == 0 and not self.trainer.sanity_checking:
                self.steps.append(self.trainer.global_step)

    model = Checked()
    options = {"limit_val_batches": 1, "val_check_interval": 0.25, "num_sanity_val_steps": 0}
    arguments = {"accelerator": "cpu", "logger": False, "enable_checkpointing": False, "enable_progress_bar": False}
    pl.Trainer(
        **arguments | options, default_root_dir=tmp_path, enable_model_summary=False, max_steps=12,
        accumulate_grad_batches=2, use_distributed_sampler=False,
    ).fit(model, data(tmp_path))  # fmt: skip
    assert model.steps == [3, 6, 9, 12]
