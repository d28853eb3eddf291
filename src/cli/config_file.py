"""Config files: found by name, read once, and named in what is said of them."""

import datetime
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from jsonargparse import get_loader

CONFIGS = Path(__file__).parents[2] / "configs"

_SAVED = "# lightning.pytorch=="
"""How a config begins that a run saved."""


@dataclass(frozen=True)
class ConfigFile:
    """A config and what it says.

    Args:
        path: the file.
        values: its keys and values.
        release: the release of this package that saved it; None where a person wrote it.
    """

    path: Path
    values: dict[str, Any]
    release: str | None = None

    def word(self, passed_over: frozenset[str]) -> str:
        """The flag that gives the config to the parser.

        Args:
            passed_over: keys that the parser does not get to see.
        """
        kept = {key: value for key, value in self.values.items() if key not in passed_over}
        return f"--config={self.path}" if len(kept) == len(self.values) else inline(kept)


def inline(values: dict[str, Any]) -> str:
    """The flag that gives values to the parser as a config.

    Args:
        values: keys and values.
    """
    dumped = yaml.dump(values, Dumper=_Quoting, default_flow_style=True, allow_unicode=True, width=float("inf"))
    return f"--config={dumped.rstrip()}"


class _Quoting(yaml.SafeDumper):
    """Quotes all text, since the parser takes more words for numbers than PyYAML does, ``1e3`` for one."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _quoted(dumper: yaml.SafeDumper, value: Any) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", str(value), style='"')


for _kind in (str, datetime.date, datetime.datetime):
    _Quoting.add_representer(_kind, _quoted)


def find_config(name: str) -> Path:
    """A config as given or, where there is no such file, in the folder ``configs``.

    Args:
        name: path of a YAML file, or its name in ``configs``.

    Raises:
        FileNotFoundError: there is neither.
    """
    for path in (Path(name), CONFIGS / name):
        if path.is_file():
            return path
    known = ", ".join(sorted(path.relative_to(CONFIGS).as_posix() for path in CONFIGS.rglob("*.yaml")))
    kind = ", which is a folder" if name and Path(name).is_dir() else ""
    raise FileNotFoundError(
        f"--config must be a YAML file or one of {CONFIGS}, got {name!r}{kind}; there are: {known}."
    )


def read_config(name: str) -> ConfigFile:
    """Finds and reads a config.

    Args:
        name: path of a YAML file, or its name in ``configs``.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: it is not YAML with keys and values.
    """
    path = find_config(name)
    try:
        text = path.read_text("utf-8")
        values = get_loader("yaml")(text)
    except (yaml.YAMLError, UnicodeDecodeError, OSError) as error:
        raise ValueError(f"--config must be YAML, got {path} ({_reason(error)}); correct the file.") from error
    if not isinstance(values, dict):
        kind = "nothing" if values is None else f"a {type(values).__name__}"
        raise ValueError(f"--config must hold keys and values, got {path} with {kind} in it; correct the file.")
    release = values.get("release") or ("0.1.0" if text.startswith(_SAVED) else None)
    return ConfigFile(path, values, None if release is None else str(release))


def _reason(error: Exception) -> str:
    mark = getattr(error, "problem_mark", None)
    if mark is None:
        return "it is not text" if isinstance(error, UnicodeDecodeError | yaml.reader.ReaderError) else str(error)
    return f"line {mark.line + 1}, column {mark.column + 1}: {getattr(error, 'problem', None) or 'not understood'}"


def nested_items(values: dict[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    """Every key of nested values as one would type it in a flag, with dots and without ``init_args``; and its value.

    Args:
        values: keys and values, some of them nested.
        before: what stands before each key.
    """
    for key, value in values.items():
        name = before if key == "init_args" else f"{before}.{key}".lstrip(".")
        if key not in ("init_args", "class_path"):
            yield name, value
        if isinstance(value, dict):
            yield from nested_items(value, name)
