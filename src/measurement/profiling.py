"""Where the time goes: by part of the model, and by operator of torch."""

import functools
import re
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile

from src.layers.conv3x3 import Kernel
from src.layers.strips import UpsampledStrips
from src.models.upernet_strips import FinestLevel

_PARTS = {
    r"encoder\.patch_embed": "patch embedding",
    r"encoder\.layers\.\d+\.blocks\.\d+\.attn": "attention",
    r"encoder\.layers\.\d+\.blocks\.\d+\.mlp": "MLP",
    r"encoder\.layers\.\d+\.downsample": "merging",
    r"encoder": "encoder, the rest (norms, sums)",
    r"decoder\.(psp_modules|bottleneck)": "pyramid pooling",
    r"decoder\.lateral_convs": "laterals",
    r"decoder\.fpn_convs": "fpn convs",
    r"decoder\.fpn_bottleneck": "fpn bottleneck",
    r"decoder\.conv_seg": "classifier",
    r"decoder": "decoder, the rest (resizing)",
    r"auxiliary": "auxiliary head",
}
REST = "label map, and what is left"
_FINEST = "finest level, the rest (lateral, classifier)"
STRIP_PARTS = (
    (FinestLevel, "score", _FINEST, None),
    (Kernel, "strip", "finest level, 3x3 convolutions", _FINEST),
    (UpsampledStrips, "__init__", "finest level, upsampled maps", _FINEST),
    (UpsampledStrips, "add_to", "finest level, upsampled maps", _FINEST),
)
"""What inference does with the finest level in strips, without its modules: where, its part, and in which part."""


@dataclass
class PartTimes:
    """Time that each part takes without the parts in it.

    Args:
        clock: tells the time in seconds.
        seconds: time of each part so far.
    """

    clock: Callable[[], float] = time.perf_counter
    seconds: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))

    def __post_init__(self) -> None:
        self._open: list[str] = [REST]
        self._since = self.clock()

    def enter(self, part: str) -> None:
        """A part begins within the one that runs."""
        self._count()
        self._open.append(part)

    def leave(self) -> None:
        """The part that began last ends."""
        self._count()
        self._open.pop()

    @property
    def current(self) -> str:
        """The part that runs."""
        return self._open[-1]

    def _count(self) -> None:
        now = self.clock()
        self.seconds[self._open[-1]] += now - self._since
        self._since = now


def part_of(name: str) -> str | None:
    """The part that a module's name stands for; None where it is within one, or none.

    Args:
        name: for example ``encoder.layers.0.blocks.1.attn``.
    """
    whole = (part for pattern, part in _PARTS.items() if re.fullmatch(pattern, name))
    return next(whole, None)


@contextmanager
def watched(model: nn.Module, synchronise: Callable[[], None] | None = None) -> Iterator[PartTimes]:
    """Times the parts of a model while it runs forward.

    Methods are replaced for the time being and no hooks are used, for a model with hooks runs another way.

    Args:
        model: a segmenter.
        synchronise: waits for a device.
    """
    times = PartTimes(_waiting(synchronise))
    with ExitStack() as replaced:
        for name, module in model.named_modules():
            if (part := part_of(name) or _part_of_list(model, name)) is not None:
                for method in ("forward", "joined"):
                    if hasattr(module, method):
                        replaced.enter_context(_timed(module, method, times, part))
        for owner, method, part, within in STRIP_PARTS:
            replaced.enter_context(_timed(owner, method, times, part, within))
        times.enter(REST)  # what was replaced so far took time that does not count
        times.seconds.clear()
        yield times
        times.leave()


def _part_of_list(model: nn.Module, name: str) -> str | None:
    """The part of the list that a module is in: a list of modules is never called itself."""
    above = name.rpartition(".")[0]
    return part_of(above) if isinstance(model.get_submodule(above), nn.ModuleList) else None


@contextmanager
def _timed(owner: Any, method: str, times: PartTimes, part: str, within: str | None = None) -> Iterator[None]:
    """Lets a method of an object or class count for a part, where ``within`` runs or nothing is asked of that."""
    own, work = vars(owner).get(method), getattr(owner, method)

    @functools.wraps(work)
    def timed(*args: Any, **kwargs: Any) -> Any:
        if within not in (None, times.current):
            return work(*args, **kwargs)
        times.enter(part)
        try:
            return work(*args, **kwargs)
        finally:
            times.leave()

    setattr(owner, method, timed)
    try:
        yield
    finally:
        if own is None:
            delattr(owner, method)
        else:
            setattr(owner, method, own)


def _waiting(synchronise: Callable[[], None] | None) -> Callable[[], float]:
    def clock() -> float:
        if synchronise is not None:
            synchronise()
        return time.perf_counter()

    return clock


def profiled(work: Callable[[], Any], model: nn.Module, device: str = "cpu", top: int = 20) -> dict[str, Any]:
    """Seconds by part and by operator, each of one run after one that is not counted.

    Args:
        work: what to do.
        model: the model that it runs.
        device: ``cpu`` or ``cuda``.
        top: operators to tell.
    """
    work()
    with watched(model, torch.cuda.synchronize if device == "cuda" else None) as times:
        work()
    activities = [ProfilerActivity.CPU] + ([ProfilerActivity.CUDA] if device == "cuda" else [])
    with profile(activities=activities) as told:
        work()
    key = "self_device_time_total" if device == "cuda" else "self_cpu_time_total"
    operators = sorted(told.key_averages(), key=lambda event: -getattr(event, key))[:top]
    return {
        "parts": dict(sorted(times.seconds.items(), key=lambda item: -item[1])),
        "operators": [
            {"name": event.key, "seconds": getattr(event, key) / 1e6, "calls": event.count} for event in operators
        ],
    }


def share_lines(told: dict[str, Any]) -> tuple[list[tuple[str, ...]], list[tuple[str, ...]]]:
    """Parts and operators as lines of a table.

    Args:
        told: what ``profiled`` gave.
    """
    whole = sum(told["parts"].values()) or 1.0
    parts: list[tuple[str, ...]] = [
        (name, _ms(value), f"{100 * value / whole:.1f} %") for name, value in told["parts"].items()
    ]
    every = sum(each["seconds"] for each in told["operators"]) or 1.0
    operators: list[tuple[str, ...]] = [
        (each["name"], _ms(each["seconds"]), f"{100 * each['seconds'] / every:.1f} %", str(each["calls"]))
        for each in told["operators"]
    ]
    return parts, operators


def _ms(seconds: float) -> str:
    return f"{1000 * seconds:,.1f} ms"
