"""Stochastic depth: whole images skip a residual branch in training."""

from torch import Tensor, nn


class DropPath(nn.Module):
    """Sets the branch of some images to zero in training and scales the others up, so that the mean stays.

    The draws are those of torchvision's ``StochasticDepth`` in its mode ``row``.

    Source: Huang et al., "Deep Networks with Stochastic Depth", 2016, section 3; there the branch is scaled down at
    inference instead.

    Args:
        p: chance that an image skips the branch, a fraction.

    Raises:
        ValueError: ``p`` is no fraction.
    """

    def __init__(self, p: float) -> None:
        super().__init__()
        if not 0 <= p <= 1:
            raise ValueError(f"p must be between 0 and 1, got {p}; give a fraction, 0 for none.")
        self.p = p

    def forward(self, x: Tensor) -> Tensor:
        """Maps a branch's output ``(B, ...)`` to one of the same shape."""
        if not self.training or self.p == 0:
            return x
        kept = x.new_empty((len(x),) + (1,) * (x.ndim - 1)).bernoulli_(1 - self.p)
        if self.p < 1:
            kept.div_(1 - self.p)
        return x * kept

    def extra_repr(self) -> str:
        """The chance."""
        return f"p={self.p}"
