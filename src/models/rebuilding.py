"""Building again what a checkpoint describes, with a plain answer where that fails."""

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from torch import Tensor, nn
from torch.nn.modules.module import register_module_parameter_registration_hook
from torch.nn.parameter import is_lazy

from src.models.settings import Settings, build, class_path
from src.wording import listed

T = TypeVar("T")

_SHOWN = 3
_SPARE_TENSORS = 10_000
_SPARE_NUMBERS = 50_000_000


def built(settings: Settings, kind: type[T], path: str | Path, **overrides: Any) -> T:
    """What settings in a checkpoint describe.

    Args:
        settings: class path and arguments.
        kind: the class of which it must be.
        path: the file, for errors.
        **overrides: arguments that replace recorded ones.

    Raises:
        ImportError: a class comes from a package that is not installed.
        ValueError: the settings are damaged or of another release.
    """
    with usable(path):
        made = build(settings, **overrides)
        if not isinstance(made, kind):
            raise ValueError(f"{class_path(type(made))} is no {kind.__name__}")
        return made


@contextmanager
def no_larger_than(weights: Mapping[str, Any]) -> Iterator[None]:
    """Ends the building of a model that is far larger than its weights, before memory and time are spent on it.

    A model may make parts that it drops again, so some more than the weights is let pass.

    Args:
        weights: the weights that it is to take.

    Raises:
        ValueError: the model has far more parameters than there are weights.
    """
    tensors = [value for value in weights.values() if isinstance(value, Tensor)]
    numbers = sum(value.numel() for value in tensors)
    left = {"parameters": 2 * len(tensors) + _SPARE_TENSORS, "numbers": 2 * numbers + _SPARE_NUMBERS}
    thread = threading.get_ident()

    def count(module: nn.Module, name: str, parameter: nn.Parameter) -> None:
        if threading.get_ident() != thread or is_lazy(parameter):
            return
        left["parameters"] -= 1
        left["numbers"] -= parameter.numel()
        if min(left.values()) < 0:
            raise ValueError(
                f"the model that is described is far larger than its weights of {len(tensors)} tensors and {numbers:,} "
                f"numbers"
            )

    hook = register_module_parameter_registration_hook(count)
    try:
        yield
    finally:
        hook.remove()


@contextmanager
def usable(path: str | Path) -> Iterator[None]:
    """Names the checkpoint in what goes wrong with a part of it.

    Args:
        path: the file.

    Raises:
        ImportError: a class in it comes from a package that is not installed.
        ValueError: its values are damaged or of another release.
    """
    try:
        yield
    except ImportError as error:
        raise ImportError(f"{path}: {error}") from error
    except (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RuntimeError) as error:
        raise ValueError(
            f"{path} holds settings that cannot be used ({type(error).__name__}: {error}); it is damaged, or of "
            f"another release of the toolkit or of a package that it names: take another checkpoint, or that release."
        ) from error


def take_weights(module: nn.Module, weights: Mapping[str, Any], path: str | Path) -> None:
    """Puts all weights of a checkpoint into a module.

    Args:
        module: what was built from the checkpoint's settings.
        weights: its ``state_dict``.
        path: the file, for errors.

    Raises:
        ValueError: weights are missing, left over, of another shape, or not numbers.
    """
    if damaged := [name for name, value in weights.items() if isinstance(value, Tensor) and not is_finite(value)]:
        raise ValueError(
            f"{path} must hold weights that are finite, got others in {listed(damaged, _SHOWN)}; its training had "
            f"diverged: take an earlier checkpoint."
        )
    try:
        module.load_state_dict(weights)
    except (RuntimeError, TypeError, AttributeError) as error:
        lines = [line.strip()[:200] for line in str(error).splitlines()]
        raise ValueError(
            f"{path} must hold the weights of the model that it describes, got others "
            f"({listed(lines[1:] or lines, _SHOWN)}); take another checkpoint, or the release that wrote this one."
        ) from error


def is_finite(value: Tensor) -> bool:
    """Whether a tensor has neither NaN nor infinities; whole numbers and values that are not there have none.

    Args:
        value: of any type and device.
    """
    if not value.is_floating_point() or value.device.type == "meta":
        return True
    return bool((value.float() if value.itemsize == 1 else value).isfinite().all())  # types of 8 bits cannot tell
