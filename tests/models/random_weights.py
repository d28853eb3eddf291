"""Weights at random, of a size at which every part of a model counts in its output."""

import torch
from torch import nn


def randomise(model: nn.Module, seed: int = 0) -> nn.Module:
    """Fills every parameter and running statistic and returns the model in eval mode."""
    generator = torch.Generator().manual_seed(seed)
    for module in model.modules():
        for name, value in [*module.named_parameters(recurse=False), *module.named_buffers(recurse=False)]:
            if not value.is_floating_point():
                continue
            if name in ("running_var", "weight") and value.ndim == 1:
                new = 0.5 + torch.rand(value.shape, generator=generator)
            elif isinstance(module, nn.Linear | nn.Conv2d) and name == "weight":
                new = torch.randn(value.shape, generator=generator) * 1.5 / value[0].numel() ** 0.5
            elif name == "relative_position_bias_table" or name == "absolute_pos_embed":
                new = torch.randn(value.shape, generator=generator)
            elif name == "logit_scale":  # below the limit: there the published masks of -100 are not enough
                new = 3 * torch.rand(value.shape, generator=generator)
            else:
                new = 0.5 * torch.randn(value.shape, generator=generator)
            value.data.copy_(new)
    return model.eval()
