"""Modules that remember, in plain types, how they were built, so that a checkpoint can build them again."""

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any

from torch import nn

from src.models.importing import imported

Settings = dict[str, Any]
"""``{"class_path": "package.module.Class", "init_args": {...}}``, nested, of plain types only."""


class RecordsSettings:
    """Mixin whose subclasses keep the arguments of their outermost ``__init__`` in ``settings``.

    The arguments are recorded before ``__init__`` runs, defaults included; ``plain`` writes them down. Subclasses with
    more arguments need nothing of their own.

    Attributes:
        settings: class path and arguments, see ``Settings``.

    Example:
        >>> class Scale(RecordsSettings):
        ...     def __init__(self, factor: float = 2.0) -> None:
        ...         self.factor = factor
        >>> Scale().settings["init_args"]
        {'factor': 2.0}

    Raises:
        TypeError: a subclass's ``__init__`` has arguments without a name, as in ``*args``.
    """

    settings: Settings

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "__init__" in cls.__dict__:
            _check_names(cls)
            cls.__init__ = _recording(cls.__init__)  # type: ignore[method-assign]


def _check_names(cls: type) -> None:
    unnamed = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.POSITIONAL_ONLY)
    _, *parameters = inspect.signature(cls.__init__).parameters.items()  # type: ignore[misc]
    for name, parameter in parameters:
        if parameter.kind in unnamed:
            raise TypeError(
                f"{cls.__qualname__}.__init__ must take arguments that can be given by name, for they are recorded and "
                f"given again so, got {str(parameter).partition(':')[0]}; take {name} by name, several as one sequence."
            )


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
        return {str(name): plain(item, _below(key, str(name))) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item, f"{key}[{index}]") for index, item in enumerate(value)]
    if hasattr(value, "settings"):
        return plain(value.settings, key)
    if hasattr(value, "to_dict"):
        return plain(value.to_dict(), key)
    raise ValueError(
        f"{key} cannot be written into a checkpoint: got {type(value).__name__}, expected numbers, strings, lists, "
        f"dicts or an object with `settings`; derive the class from src.models.settings.RecordsSettings, or "
        f"build another library's with src.models.settings.build_recorded."
    )


def _below(key: str, name: str) -> str:
    return key if name == "init_args" else f"{key}.{name}"  # as in a flag


def build(settings: Settings, **overrides: Any) -> Any:
    """The object that ``settings`` describe, which has settings again.

    Args:
        settings: class path and arguments; nested settings are built first.
        **overrides: arguments that replace recorded ones.

    Raises:
        ImportError: the class cannot be found.
        ValueError: the class is neither a module nor one that records settings: settings may come from a stranger's
            checkpoint, and nothing else is called for them.
    """
    return factory(settings)(**overrides)


def factory(settings: Settings) -> functools.partial[Any]:
    """What makes the object that ``settings`` describe, with settings, from the arguments that they do not hold.

    Args:
        settings: class path and arguments; nested settings are built now, or by the class itself where it has
            ``from_settings``.

    Raises:
        ImportError: the class cannot be found.
        ValueError: the class is neither a module nor one that records settings.
    """
    cls = imported(settings["class_path"])
    if not (inspect.isclass(cls) and issubclass(cls, nn.Module | RecordsSettings)):
        raise ValueError(
            f"class_path must be a torch.nn.Module or RecordsSettings, got {settings['class_path']}; the settings are "
            f"damaged."
        )
    _check_known(cls, settings)
    if hasattr(cls, "from_settings"):
        return functools.partial(cls.from_settings, settings)
    arguments = {name: _built(value) for name, value in settings["init_args"].items()}
    return functools.partial(build_recorded, cls, **arguments)


def _check_known(cls: type, settings: Settings) -> None:
    parameters = inspect.signature(cls).parameters
    unknown = sorted(settings["init_args"].keys() - parameters.keys())
    if unknown and not any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in parameters.values()):
        raise ValueError(
            f"{settings['class_path']} must have the arguments that were recorded, got none called "
            f"{', '.join(unknown)}; install the release of its package that wrote them."
        )


def check_importable(settings: Any) -> None:
    """Imports every class that settings name.

    Args:
        settings: class path and arguments, nested.

    Raises:
        ImportError: a class cannot be found.
    """
    if isinstance(settings, Mapping):
        if set(settings) == {"class_path", "init_args"}:
            imported(settings["class_path"])
        settings = list(settings.values())
    for value in settings if isinstance(settings, list) else ():
        check_importable(value)


def _built(value: Any) -> Any:
    if isinstance(value, Mapping):
        nested = set(value) == {"class_path", "init_args"}
        return build(dict(value)) if nested else {name: _built(item) for name, item in value.items()}
    return [_built(item) for item in value] if isinstance(value, list) else value


def build_recorded(class_type: type, *args: Any, **kwargs: Any) -> Any:
    """An object of ``class_type`` that has ``settings``, also where its class knows nothing of them.

    Args:
        class_type: the class to build.
        *args: positional arguments, which are not recorded.
        **kwargs: arguments by name, which are recorded unless the class records its own.
    """
    built = class_type(*args, **kwargs)
    if not hasattr(built, "settings"):
        built.settings = {"class_path": class_path(class_type), "init_args": kwargs}
    return built
