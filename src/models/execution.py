"""How a network is run: numbers, compiler, layout in memory. None of it is part of what the network is."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import torch
from torch import nn

from src.layers.conv3x3 import Numerics
from src.models.segmenter import Segmenter


@dataclass(frozen=True)
class Execution:
    """How a segmenter is run; its weights, its state dict and what is written of it stay as they are.

    Args:
        numerics: ``exact``: 3x3 convolutions in float32 stay at about 1e-6 of the largest value from the true result;
            ``fast``: they may be somewhat further from it where that is faster, see docs/numerics.md.
        compile: compile encoder, decoder and auxiliary head with ``torch.compile``. Each is compiled for one size of
            images, again where a side first changes, and then serves all sizes; images with less than a window on
            some level are compiled apart. After eight compilations of a part what is new runs uncompiled.
        channels_last: store the weights of convolutions channels last, as the maps are stored.
        cuda_graphs: record the kernels of each size on a CUDA device and replay them; wants ``compile``.

    Raises:
        ValueError: ``numerics`` is neither, or ``cuda_graphs`` is set without ``compile``.
    """

    numerics: Numerics = "exact"
    compile: bool = False
    channels_last: bool = False
    cuda_graphs: bool = False

    def __post_init__(self) -> None:
        if self.numerics not in ("exact", "fast"):
            raise ValueError(f"execution.numerics must be exact or fast, got {self.numerics!r}; take one of these.")
        if self.cuda_graphs and not self.compile:
            raise ValueError("execution.cuda_graphs must come with execution.compile, got it alone; set both.")

    def prepare(self, model: Segmenter) -> Segmenter:
        """Sets a segmenter to be run like this, and gives it back.

        Args:
            model: the segmenter, on the device that it will run on.

        Raises:
            ValueError: ``cuda_graphs`` is set and there is no CUDA device.
        """
        if self.cuda_graphs and not torch.cuda.is_available():
            raise ValueError("execution.cuda_graphs must have a CUDA device, got a machine without; leave it out.")
        for module in model.modules():
            if hasattr(module, "numerics"):
                module.numerics = self.numerics  # type: ignore[assignment]
        if self.channels_last:
            model.to(memory_format=torch.channels_last)
        if self.compile:
            model.joins_sizes = False
            for part in cast(Sequence[nn.Module], (model.encoder, model.decoder, model.auxiliary)):
                if part is not None:
                    part.compile(mode="reduce-overhead" if self.cuda_graphs else None)
        return model
