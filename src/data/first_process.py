"""What one process of a run decides for all."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

T = TypeVar("T")


@dataclass(frozen=True)
class _Refused:
    error: Exception


def from_first(trainer: Any, decide: Callable[[], T]) -> T:
    """What the first process decides, in every process; so are its errors, since the others wait for an answer.

    Args:
        trainer: Lightning's trainer, which knows the processes; None where there is one process.
        decide: called in the first process alone; gives something that can be pickled.
    """
    if trainer is None:
        return decide()
    outcome: Any = None
    if trainer.is_global_zero:
        try:
            outcome = decide()
        except Exception as error:
            outcome = _Refused(error)
    outcome = trainer.strategy.broadcast(outcome)
    if isinstance(outcome, _Refused):
        raise outcome.error
    decided: T = outcome
    return decided
