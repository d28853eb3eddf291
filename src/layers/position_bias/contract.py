"""What attention asks of a position bias."""

from abc import ABC, abstractmethod
from collections.abc import Hashable

from torch import Tensor, nn


class PositionBias(nn.Module, ABC):
    """A bias on the attention logits that follows from the places of query and key alone."""

    @abstractmethod
    def forward(self, query_coords: Tensor, key_coords: Tensor) -> Tensor:
        """The bias of every pair.

        Coordinates must not be written to after the call: what follows from them is kept as long as they are.

        Args:
            query_coords: places of the queries ``(Nq, D)``, in tokens.
            key_coords: places of the keys ``(Nk, D)``, in tokens.

        Returns:
            Bias ``(num_heads, Nq, Nk)``.
        """

    @property
    def constants(self) -> Hashable:
        """What the bias depends on besides its parameters and buffers; what attention keeps is made anew with it."""
        return ()
