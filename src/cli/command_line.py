"""What is typed, put in the order that the parser needs."""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import reduce
from itertools import pairwise
from typing import Any

from src.cli.config_file import ConfigFile, inline, read_config

SUBCOMMANDS = ("fit", "validate", "test", "predict")
SCORING = ("validate", "test", "predict")
"""The subcommands that need a checkpoint."""

_NUMBER_TO_NULL = re.compile(r"\{?\s*(-?\d+)\s*:\s*(?:null|~)?\s*\}?")

IMAGES = "--data.images"
"""The option that takes as many files as a shell makes of a pattern."""


@dataclass
class CommandLine:
    """A command line in its parts.

    Args:
        subcommand: the subcommand, or whatever stands in its place; empty where nothing does.
        configs: the configs in their order.
        flags: all other words in their order.
    """

    subcommand: str = ""
    configs: list[ConfigFile] = field(default_factory=list)
    flags: list[str] = field(default_factory=list)

    @property
    def asks_for_help(self) -> bool:
        """Whether a help page is asked for, of the subcommand or of a class."""
        return any(word in ("-h", "--help") or word.partition("=")[0].endswith(".help") for word in self.flags)

    def flag_values(self, option: str) -> Iterator[str]:
        """The values that flags give to an option, in their order.

        Args:
            option: with dashes.
        """
        for word, following in pairwise([*self.flags, ""]):
            name, equals, value = word.partition("=")
            if name == option:
                yield value if equals else following

    def value(self, key: str) -> Any:
        """The last value of an option that is no class's: a flag's, else a config's, else None.

        Args:
            key: the option, with dots and without dashes.
        """
        told = [reduce(_inner, key.split("."), config.values) for config in self.configs]
        return next(filter(None, reversed([*told, *self.flag_values(f"--{key}")])), None)

    @property
    def flag_keys(self) -> list[str]:
        """The options that flags give, as in a config without ``init_args``."""
        names = [word.partition("=")[0] for word in self.flags if word.startswith("--")]
        return [name.removeprefix("--").removesuffix("+").replace(".init_args", "") for name in names]

    @property
    def runs(self) -> str:
        """Folder of all runs."""
        return self.value("trainer.default_root_dir") or self.value("runs") or "runs"

    @property
    def run_name(self) -> str | None:
        """The name that the configs give to a run, without the subcommand; None where there is no config."""
        if not self.configs:
            return None
        names = [self.configs[0].path.stem, *(config.values.get("name") for config in self.configs)]
        return re.sub(f"-({'|'.join(SCORING)})$", "", str(next(filter(None, reversed(names)))))

    @property
    def predicts_other_images(self) -> bool:
        """Whether the images to predict are given in place of the data of a config, where that names our own data."""
        named = str(self.value("data.class_path") or "")
        own = named.startswith("src.data.") and named.rpartition(".")[2] != "ImageFolder"
        chosen = any(word.partition("=")[0] in ("--data", "--data.class_path") for word in self.flags)
        return self.subcommand == "predict" and own and not chosen and self.has_flag(IMAGES)

    def has_flag(self, option: str) -> bool:
        """Whether a flag gives the option, one of its parts, or appends to it.

        Args:
            option: with dashes.
        """
        names = (word.partition("=")[0] for word in self.flags)
        return any(name in (option, f"{option}+") or name.startswith(f"{option}.") for name in names)

    def without_flag(self, option: str) -> list[str]:
        """All flags but an option and its values.

        Args:
            option: with dashes.
        """
        kept, skipped = [], False
        for word in self.flags:
            if not skipped and word.partition("=")[0] != option:
                kept.append(word)
            skipped = word == option
        return kept


def _inner(values: Any, key: str) -> Any:
    return values.get(key) if isinstance(values, dict) else None


def read_command_line(words: Sequence[str]) -> CommandLine:
    """Takes a command line apart and reads its configs; the files that follow ``--data.images`` become one list.

    Args:
        words: the command line's arguments, from the subcommand on.

    Raises:
        FileNotFoundError: a config is neither where it was said nor in the folder ``configs``.
        ValueError: a config is not YAML with keys and values.
    """
    subcommand, rest = (words[0], words[1:]) if words and not words[0].startswith("-") else ("", words)
    line, following = CommandLine(subcommand), iter(rest)
    for word in following:
        option, equals, value = word.partition("=")
        if option in ("--config", "-c"):
            line.configs.append(read_config(value if equals else next(following, "")))
        else:
            line.flags.append(word)
    line.flags = list(_gathered(line.flags))
    return line


def _gathered(flags: list[str]) -> Iterator[str]:
    index = 0
    while index < len(flags):
        option, equals, value = flags[index].partition("=")
        end = index + 1
        if option == IMAGES:
            while end < len(flags) and not flags[end].startswith("--"):
                end += 1
        values = ([value] if equals else []) + flags[index + 1 : end]
        if len(values) > 1:
            yield f"{IMAGES}={json.dumps(values, ensure_ascii=False)}"
        else:
            yield from flags[index:end]
        index = end


def parser_words(flags: Sequence[str]) -> Iterator[str]:
    """The flags as the parser understands them: what it takes from a config alone is given as one, in its place.

    That is a reference to another value, and null two levels below ``--model`` or ``--data``. And a number
    that leads to null, over which the parser stumbles.

    Args:
        flags: the flags as they were typed.
    """
    passed = False
    for word, following in pairwise([*flags, ""]):
        option, equals, value = word.partition("=")
        value = value if equals else following
        deep_null = value == "null" and option.count(".") > 1 and option.startswith(("--model.", "--data."))
        if passed:
            passed = False
        elif option.startswith("--") and ("${" in value or deep_null) and not value.startswith("--"):
            yield inline(_as_config(option.removeprefix("--"), None if deep_null else value))
            passed = not equals
        elif option.startswith("--") and (match := _NUMBER_TO_NULL.fullmatch(value)):
            yield f'{option}={{"{match[1]}": null}}'
            passed = not equals
        else:
            yield word


def _as_config(key: str, value: Any) -> dict[str, Any]:
    room, *parts = (part for part in key.split(".") if part != "init_args")
    for depth, part in reversed(list(enumerate(parts))):
        value = {part: value}
        if room == "model" or (room == "data" and depth == 0):
            value = {"init_args": value}
    return {room: value}
