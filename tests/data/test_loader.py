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


@pytest.mark.parametrize(
    ("whole", "half"),
    [({"max_steps": 8}, {"max_steps": 8, "limit_train_batches": 5}), ({"max_epochs": 4}, {"max_steps": 5})],
    ids=["run counted in steps", "run counted in epochs"],
)
def test_a_resumed_run_sees_what_an_uninterrupted_one_sees(tmp_path: Path, whole: dict, half: dict):
    uninterrupted = Recorder()
    trainer(tmp_path, **whole).fit(uninterrupted, data(tmp_path))

    class Stop(pl.Callback):
        def on_train_batch_end(self, running: pl.Trainer, *_: Any) -> None:
            if running.global_step == 5:
                running.save_checkpoint(tmp_path / "stopped.ckpt")
                running.should_stop = True

    first, second = Recorder(), Recorder()
    trainer(tmp_path, **whole, callbacks=[Stop()], min_steps=1).fit(first, data(tmp_path))
    assert len(first.seen) == 10
    trainer(tmp_path, **whole).fit(second, data(tmp_path), ckpt_path=tmp_path / "stopped.ckpt")
    assert first.seen + second.seen == uninterrupted.seen


def test_validation_comes_at_fractions_of_the_run(tmp_path: Path):
    class Checked(Recorder):
        steps: list[int] = []

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
