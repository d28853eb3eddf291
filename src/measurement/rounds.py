"""Times of several workers in turn, so that whatever else the machine does meets all of them."""

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Spread:
    """Several measurements of one thing.

    Args:
        values: the measurements, in their order.
    """

    values: tuple[float, ...]

    @property
    def median(self) -> float:
        """The middle one."""
        return statistics.median(self.values)

    @property
    def least(self) -> float:
        """The smallest one."""
        return min(self.values)

    @property
    def most(self) -> float:
        """The largest one."""
        return max(self.values)

    def to_dict(self) -> dict[str, Any]:
        """Median, smallest, largest and all."""
        return {"median": self.median, "min": self.least, "max": self.most, "values": list(self.values)}


@dataclass
class Rounds:
    """What came of working in turn.

    Args:
        seconds: times of each worker, one a round.
        order: the workers in the order in which they worked, round after round, the first round untimed.
        results: what each worker gave in the first round.
    """

    seconds: dict[str, list[float]] = field(default_factory=dict)
    order: list[str] = field(default_factory=list)
    results: dict[str, Any] = field(default_factory=dict)

    def spread(self, name: str) -> Spread:
        """A worker's times in seconds."""
        return Spread(tuple(self.seconds[name]))

    def ratio(self, other: str, ours: str) -> Spread:
        """The time of one worker over that of another, round by round.

        Args:
            other: the worker whose time is divided.
            ours: the worker by whose time it is divided.
        """
        return Spread(tuple(a / b for a, b in zip(self.seconds[other], self.seconds[ours], strict=True)))


def alternate(
    workers: Mapping[str, Callable[[], Any]],
    rounds: int = 5,
    synchronise: Callable[[], None] | None = None,
    clock: Callable[[], float] = time.perf_counter,
) -> Rounds:
    """Lets workers work in turn, A B C A B C ..., one round untimed and then ``rounds`` timed ones.

    Args:
        workers: what each does, by name.
        rounds: timed rounds.
        synchronise: waits until a device has done its work; None where there is nothing to wait for.
        clock: tells the time in seconds.
    """
    wait = synchronise or (lambda: None)
    done = Rounds({name: [] for name in workers})
    for number in range(rounds + 1):
        for name, work in workers.items():
            wait()
            start = clock()
            result = work()
            wait()
            if number:
                done.seconds[name].append(clock() - start)
            else:
                done.results[name] = result
            del result
            done.order.append(name)
    return done


def table_row(done: Rounds, ours: Sequence[str]) -> dict[str, Any]:
    """Times and ratios in plain types; a ratio above 1 says that ours is faster.

    Args:
        done: what came of working in turn.
        ours: the workers that the others are compared with.
    """
    others = [name for name in done.seconds if name not in ours]
    return {
        "unit": "s",
        "ratio": "theirs / ours",
        "figures": {name: done.spread(name).to_dict() for name in done.seconds},
        "ratios": {name: {other: done.ratio(other, name).to_dict() for other in others} for name in ours},
        "order": done.order,
    }
