"""What is typed, put in the order that the parser needs."""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import yaml

CONFIGS = Path(__file__).parents[2] / "configs"
SUBCOMMANDS = ("fit", "validate", "test", "predict")


def arranged(words: Sequence[str]) -> list[str]:
    """The command line with its subcommand first, then each ``--config=PATH``, found, then all else in its order.

    Args:
        words: the command line's arguments, from the subcommand on.

    Raises:
        FileNotFoundError: a config is neither where it was said nor in the folder ``configs``.
    """
    configs, others, rest = [], [], iter(words)
    for word in rest:
        key, equals, value = word.partition("=")
        if key in ("--config", "-c"):
            configs.append(f"--config={find_config(value if equals else next(rest, ''))}")
        else:
            others.append(word)
    return [*others[:1], *configs, *others[1:]] if others and others[0] in SUBCOMMANDS else [*configs, *others]


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
    raise FileNotFoundError(f"--config must be a YAML file or one of {CONFIGS}, got {name!r}; there are: {known}.")


def config_files(words: Sequence[str]) -> list[Path]:
    """The configs of an arranged command line, in their order.

    Args:
        words: what ``arranged`` gave.
    """
    return [Path(word.partition("=")[2]) for word in words if word.startswith("--config=")]


def _parsed(config: Path) -> dict[str, Any]:
    try:
        parsed = yaml.safe_load(config.read_text("utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ValueError(f"--config must be YAML, got {config} ({error}); correct the file.") from error
    if not isinstance(parsed, dict):
        raise ValueError(f"--config must hold keys and values, got {config} with {type(parsed).__name__}.")
    return parsed


def checkpoint_path(words: Sequence[str]) -> str | None:
    """The checkpoint that an arranged command line names, in a flag or in a config, the last of them.

    Args:
        words: what ``arranged`` gave.

    Raises:
        ValueError: a config is not YAML with keys and values.
    """

    def named() -> Iterator[str | None]:
        for config in config_files(words):
            yield _parsed(config).get("ckpt_path")
        for word, following in pairwise([*words, ""]):
            key, equals, value = word.partition("=")
            if key == "--ckpt_path":
                yield value if equals else following

    return next((path for path in reversed(list(named())) if path), None)
