"""Modules that remember, in plain types, how they were built, so that a checkpoint can build them again."""

import functools
import importlib
import inspect
from collections.abc import Callable, Mapping
from typing import Any

Settings = dict[str, Any]
"""``{"class_path": "package.module.Class", "init_args": {...}}``, nested, of plain types only."""


class RecordsSettings:
    """Mixin whose subclasses keep the arguments of their outermost ``__init__`` in ``settings``.

    The arguments are recorded before ``__init__`` runs, defaults included, as numbers, strings, lists and dicts. An
    argument that itself has ``settings`` is recorded as these. Subclasses with more arguments need nothing of their own.

    Attributes:
        settings: class path and arguments, see ``Settings``.

    Example:
        >>> class Scale(RecordsSettings):
        ...     def __init__(self, factor: float = 2.0) -> None:
        ...         self.factor = factor
        >>> Scale().settings["init_args"]
        {'factor': 2.0}
    """

    settings: Settings

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "__init__" in cls.__dict__:
            cls.__init__ = _recording(cls.__init__)  # type: ignore[method-assign]


def _recording(init: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(init)
    def wrapper(self: Any, *args: Any, **kwargs: Any) -> None:
        if "settings" not in self.__dict__:
            bound = inspect.signature(init).bind(self, *args, **kwargs)
            bound.apply_defaults()
            arguments = dict(list(bound.arguments.items())[1:])
            for name, parameter in inspect.signature(init).parameters.items():
                if parameter.kind is inspect.Parameter.VAR_KEYWORD:
                    arguments |= arguments.pop(name)
            object.__setattr__(self, "settings", {"class_path": class_path(type(self)), "init_args": arguments})
        init(self, *args, **kwargs)

    return wrapper


def class_path(cls: type) -> str:
    """The dotted path under which ``cls`` can be imported."""
    return f"{cls.__module__}.{cls.__qualname__}"


def plain(value: Any, key: str = "settings") -> Any:
    """``value`` in plain types: tuples become lists, objects with ``settings`` or ``to_dict()`` become these.

    Args:
        value: what to write down.
        key: how to name the value in an error.

    Raises:
        ValueError: something in ``value`` has no plain form.
    """
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Mapping):
        return {str(name): plain(item, f"{key}.{name}") for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item, f"{key}[{index}]") for index, item in enumerate(value)]
    if hasattr(value, "settings"):
        return plain(value.settings, key)
    if hasattr(value, "to_dict"):
        return plain(value.to_dict(), key)
    raise ValueError(
        f"{key} cannot be written into a checkpoint: got {type(value).__name__}, expected numbers, strings, lists, "
        f"dicts or an object with `settings`; derive the class from src.models.settings.RecordsSettings."
    )


def build(settings: Settings, *args: Any, **overrides: Any) -> Any:
    """The object that ``settings`` describe.

    Args:
        settings: class path and arguments; nested settings are built first, unless the class has a method
            ``from_settings`` that does it.
        *args: positional arguments that are not part of the settings.
        **overrides: arguments that replace recorded ones.

    Raises:
        ImportError: the class cannot be found.
    """
    cls = imported(settings["class_path"])
    if hasattr(cls, "from_settings"):
        return cls.from_settings(settings, *args, **overrides)
    arguments = {name: _built(value) for name, value in settings["init_args"].items()} | overrides
    return cls(*args, **arguments)


def _built(value: Any) -> Any:
    return build(value) if isinstance(value, Mapping) and set(value) == {"class_path", "init_args"} else value


def imported(path: str) -> Any:
    """The object at a dotted path.

    Args:
        path: ``package.module.Name``.

    Raises:
        ImportError: the module or the name in it does not exist.
    """
    module, _, name = path.rpartition(".")
    try:
        return getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise ImportError(
            f"{path} is needed to build this model but cannot be imported ({error}); install the package that holds it."
        ) from error
