"""Memory in which what was never written shows."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def nan_memory() -> Iterator[None]:
    """Within it, torch fills every tensor that it leaves uninitialised with NaN."""
    before = torch.are_deterministic_algorithms_enabled(), torch.utils.deterministic.fill_uninitialized_memory
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.utils.deterministic.fill_uninitialized_memory = True
    try:
        assert torch.empty(1).isnan() and torch.ones(1).new_empty(1).isnan()
        yield
    finally:
        torch.use_deterministic_algorithms(before[0])
        torch.utils.deterministic.fill_uninitialized_memory = before[1]
