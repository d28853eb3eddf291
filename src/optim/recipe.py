"""Optimizer and schedule of a run, as one object that a config can name."""

import functools
from abc import ABC, abstractmethod

import torch
from torch import nn
from torch.optim.lr_scheduler import LambdaLR, LRScheduler

from src.models.settings import RecordsSettings
from src.optim.parameter_groups import parameter_groups
from src.optim.schedule import warmup_poly


class OptimizerRecipe(RecordsSettings, ABC):
    """What a task asks for its optimizer; derive from it to train in another way."""

    @abstractmethod
    def build(self, model: nn.Module, total_steps: int) -> tuple[torch.optim.Optimizer, LRScheduler]:
        """The optimizer, and a schedule that is stepped after every optimizer step.

        Args:
            model: the model to train.
            total_steps: optimizer steps of the whole run.
        """


class SwinRecipe(OptimizerRecipe):
    """AdamW with linear warm-up and polynomial decay, as Swin + UPerNet was published for ADE20K.

    Args:
        lr: base learning rate.
        betas: AdamW's coefficients for the running averages.
        weight_decay: decay of all parameters but the encoder's norms and position parameters.
        warmup: length of the warm-up as a fraction of the run.
        warmup_ratio: fraction of ``lr`` at the first step of the warm-up.
        power: exponent of the decay.

    Raises:
        ValueError: a rate or fraction is out of its range.

    Source: Swin-Transformer-Semantic-Segmentation, ``upernet_swin_tiny_patch4_window7_512x512_160k_ade20k``
    (1,500 of 160,000 steps of warm-up).
    """

    def __init__(
        self,
        lr: float = 6e-5,
        betas: tuple[float, float] = (0.9, 0.999),
        weight_decay: float = 0.01,
        warmup: float = 1500 / 160_000,
        warmup_ratio: float = 1e-6,
        power: float = 1.0,
    ) -> None:
        if lr <= 0:
            raise ValueError(f"model.optimizer.lr must be above 0, got {lr}; 6e-5 is the published one.")
        if weight_decay < 0:
            raise ValueError(f"model.optimizer.weight_decay must be at least 0, got {weight_decay}; give 0 for none.")
        for name, value in {"warmup": warmup, "warmup_ratio": warmup_ratio}.items():
            if not 0 <= value <= 1:
                raise ValueError(f"model.optimizer.{name} must be between 0 and 1, got {value}; give a fraction.")
        self.lr, self.betas, self.weight_decay = lr, betas, weight_decay
        self.warmup, self.warmup_ratio, self.power = warmup, warmup_ratio, power

    def build(self, model: nn.Module, total_steps: int) -> tuple[torch.optim.Optimizer, LRScheduler]:
        """AdamW over the recipe's two parameter groups, and its schedule per optimizer step.

        Args:
            model: the model to train, its encoder under the name ``encoder``.
            total_steps: optimizer steps of the whole run.
        """
        optimizer = torch.optim.AdamW(parameter_groups(model, self.weight_decay), lr=self.lr, betas=self.betas)
        factor = functools.partial(
            warmup_poly,
            total_steps=total_steps,
            warmup_steps=round(self.warmup * total_steps),
            warmup_ratio=self.warmup_ratio,
            power=self.power,
        )
        return optimizer, LambdaLR(optimizer, factor)
