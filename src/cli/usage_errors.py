"""What the parser refuses, said in a line: which option, what is wanted, and the nearest name where one is not known.

The parser says the same in a wall of nested unions; the innermost of what it says is what counts.
"""

import importlib
import inspect
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches

from jsonargparse import ArgumentParser

from src.cli.changes import successor
from src.cli.command_line import SUBCOMMANDS, CommandLine
from src.cli.config_file import ConfigFile, nested_items

TYPES = {
    "int": "a whole number", "float": "a number", "bool": "true or false", "str": "text", "list": "a list",
    "tuple": "a list", "Iterable": "a list", "dict": "keys and values", "NoneType": "null",
}  # fmt: skip
MODULES = ("src.models", "src.data", "src.losses", "src.optim", "src.tasks", "lightning.pytorch.callbacks")
"""Where classes are looked for whose module is not told."""

EXAMPLES = {
    "fit": "python -m src.fit --config sample.yaml",
    "validate": "python -m src.validate --config sample.yaml --ckpt_path best",
    "test": "python -m src.test --config sample.yaml --ckpt_path best",
    "predict": "python -m src.predict --ckpt_path best --data.images photos/ --output masks/",
}
HELP = "; --help lists what there is"
NO_CLASS = "no class is told for this part; put the config that tells it before, such as --config custom_masks.yaml"
_KEY = re.compile(r'(?:- )?Parser key "([^"]+)":(.*)')
_CLASS = re.compile(r"(?:- )?Problem with given class_path '([^']+)':")
_UNKNOWN = re.compile(
    r"(?:Group '(\S+)' does not accept option|Subcommand '\S+' does not accept option|Option) '(\S+)'"
)
_UNKNOWN_PART = re.compile(r"unrecognized arguments: --(\S+?)()=")
_NOISE = re.compile(r"(- )?(Does not validate|Subtypes: |Errors:|Given value|Expected a path but)")


class UsageError(ValueError):
    """The command line or a config asks for something that there is not."""


@dataclass(frozen=True)
class Leaf:
    """The innermost of what the parser says, one of several where a value fits none of several types.

    Args:
        key: the option, with dots, without ``init_args``.
        class_path: the class whose option it is; empty outside of classes.
        text: what is wrong.
        depth: how deep it stands.
    """

    key: str
    class_path: str
    text: str
    depth: int


def leaves(message: str) -> list[Leaf]:
    """The innermost of what the parser says.

    Args:
        message: the parser's own words.
    """
    found: list[Leaf] = []
    above: list[tuple[int, str, str]] = []  # indentation, key, class
    for line in filter(str.strip, message.splitlines()):
        text = line.strip()
        indent = len(line) - len(text) + 2 * text.startswith("- ")
        while above and above[-1][0] >= indent:
            above.pop()
        if match := _KEY.match(text):
            above.append((indent, match[1], ""))
            text = match[2].strip()
            if not text:
                continue
        elif match := _CLASS.match(text):
            above.append((indent, "", match[1]))
            continue
        if not _NOISE.match(text):
            key = _joined(*(key for _, key, _ in above))
            path = next((path for _, _, path in reversed(above) if path), "")
            found.append(Leaf(key, path, text.removeprefix("- "), len(above)))
    deepest = max((leaf.depth for leaf in found), default=0)
    return [leaf for leaf in found if leaf.depth == deepest]


def in_words(message: str, line: CommandLine, options: Collection[str]) -> str:
    """What the parser refuses, in a line or two.

    Args:
        message: the parser's own words.
        line: the command line.
        options: what the subcommand's parser knows, as in flags without dashes.
    """
    if line.subcommand not in SUBCOMMANDS:
        return _wrong_subcommand(line.subcommand)
    if match := re.match(r"unrecognized arguments: (.*)", message, re.DOTALL):
        return _unrecognized(line, options, match[1])
    if match := re.match(r"argument (\S+): expected one argument", message):
        return f"{match[1]} must have a value, got none; one that begins with a dash is given as {match[1]}=VALUE."
    innermost = leaves(message)
    if not innermost:
        return message
    first = innermost[0]
    if match := re.match(r"the following arguments are required: (.*)", first.text):
        return _missing(line, first, match[1].split(", "))
    if match := _UNKNOWN.match(first.text) or _UNKNOWN_PART.match(first.text):
        key = _joined(first.key, match[1], match[2])
        known = class_options(first.class_path) if first.class_path else options
        hint = _nearest(key, [_joined(first.key, name) for name in known])
        if not hint and first.class_path:
            has = ", ".join(dict.fromkeys(name.partition(".")[0] for name in known))
            hint = f"; {first.class_path} has {has}" if has else f"; {NO_CLASS}"
        return f"{origin(line, key, line.configs)} is not an option{hint or HELP}."
    subject = origin(line, first.key) if first.key else "what is given"
    return f"{subject} {_wrong_class(first.text, message) or _wanted(innermost, message).rstrip('.')}."


def check_groups(line: CommandLine, options: Collection[str]) -> None:
    """Sees that a config gives keys and values where the parser, which would pass over anything else, has options.

    Args:
        line: the command line.
        options: what the subcommand's parser knows, as in flags without dashes.

    Raises:
        UsageError: a config gives something else.
    """
    groups = {option.partition(".")[0] for option in options if "." in option}
    for config in line.configs:
        for key in groups & config.values.keys():
            if not isinstance(config.values[key], dict | str):
                raise UsageError(f"{key} in {config.path} must hold keys and values, got {config.values[key]}.")


def origin(line: CommandLine, key: str, configs: Sequence[ConfigFile] | None = None) -> str:
    """An option as the user gave it: with dashes, and with the config that it stands in unless a flag gives it.

    Args:
        line: the command line.
        key: the option without dashes.
        configs: where to look, in this order; None for all configs, the last first.
    """
    if not line.has_flag(f"--{key}"):
        for config in reversed(line.configs) if configs is None else configs:
            if any(key == name for name, _ in nested_items(config.values)):
                return f"{key} in {config.path}"
    return f"--{key}"


def class_options(class_path: str) -> list[str]:
    """The options of a class, with dots where an option has parts.

    Args:
        class_path: the class.
    """
    module, _, name = class_path.rpartition(".")
    parser = ArgumentParser(exit_on_error=False)
    parser.add_class_arguments(getattr(importlib.import_module(module), name), fail_untyped=False)
    return list(parser.get_defaults(skip_validation=True).keys())


def _joined(*keys: str | None) -> str:
    return ".".join(filter(None, keys)).replace(".init_args", "")


def _nearest(key: str, known: Collection[str]) -> str:
    if gone := successor(key):
        return f"; {gone}"
    rooms = {name.partition(".")[0]: None for name in known}
    near = get_close_matches(key, list(known), 1, 0.7) or get_close_matches(key.partition(".")[0], list(rooms), 1)
    return _or_nearest(f"--{name}" for name in near if not key.startswith(f"{name}."))


def _or_nearest(near: Iterable[str]) -> str:
    found = next(iter(near), None)
    return f"; nearest: {found}" if found else ""


def _classes(module: str) -> Iterator[str]:
    members = vars(importlib.import_module(module)).items()
    return (name for name, member in members if inspect.isclass(member) and not name.startswith("_"))


def _wrong_subcommand(word: str) -> str:
    near = get_close_matches(word, SUBCOMMANDS, 1)
    got = f"got {word}" if word else "got none"
    hint = f"nearest: {near[0]}" if near else f"for example `{EXAMPLES['fit']}`"
    return f"the first word must be one of {', '.join(SUBCOMMANDS)}, {got}; {hint}."


def _unrecognized(line: CommandLine, options: Collection[str], words: str) -> str:
    first = next((word for word in words.split() if word.startswith("--")), None)
    if first is None:
        return (
            f"every value must follow its option, got {words} alone; put a pattern or a value with blanks in quotes, "
            f"as in --data.masks 'masks/*.png'."
        )
    key = first.partition("=")[0].removeprefix("--")
    return f"--{key} is not an option of {line.subcommand}{_nearest(key.removesuffix('+'), options) or HELP}."


def _wrong_class(text: str, message: str) -> str | None:
    if match := re.search(r"module '(\S+)' has no attribute '(\S+)'", text):
        if getattr(importlib.import_module(match[1]), "__file__", None) is None:
            return (
                f"must be a class, got {match[1]}.{match[2]}, but {match[1]} is a folder without a module; put the "
                f"module's folder on the path, as in PYTHONPATH=FOLDER, and call other folders otherwise"
            )
        near = (f"{match[1]}.{name}" for name in get_close_matches(match[2], _classes(match[1]), 1))
        return f"must be a class, got {match[1]}.{match[2]}, which does not exist{_or_nearest(near)}"
    if match := re.match(r"Expected (?:a dot import path string: |an import path or .*, but got )(.*)", text):
        named = {name: f"{module}.{name}" for module in MODULES for name in _classes(module)}
        near = (named[name] for name in get_close_matches(match[1], named, 1))
        return f"must be a class, as in package.module.Class, got {match[1]}{_or_nearest(near)}"
    if match := re.match(r"Import path does not correspond to a subclass of (\w+)", text):
        return f"must be a class that derives from {match[1]}{_got(message)}"
    if match := re.match(r"No module named '(\S+)'", text):
        return f"must be a class that can be imported, but there is no module {match[1]}; install its package"
    return None


def _missing(line: CommandLine, leaf: Leaf, names: list[str]) -> str:
    keys = [_joined(leaf.key, name.removeprefix(f"{line.subcommand}.")) for name in names]
    given = ", ".join(f"--{key}" for key in keys)
    of = f" of {leaf.class_path}" if leaf.class_path else ""
    verb = "is" if len(keys) == 1 else "are"
    return f"{given}{of} must be given, and {verb} not; for example `{EXAMPLES[line.subcommand]}`."


def _wanted(innermost: list[Leaf], message: str) -> str:
    wanted, rest = [], []
    for leaf in innermost:
        text = re.sub(r"\. Got value: .*", "", leaf.text)
        if match := re.match(r"Expected an? (?:<class '(?:\w+\.)*(\w+)'>|typing\.Literal\[(.*)\])$", text):
            wanted.append(TYPES.get(match[1], f"a {match[1]}") if match[1] else f"one of {match[2]}".replace("'", ""))
        elif match := re.match(r"invalid literal for int\(\) with base 10: (.*)", text):
            rest.append(f"its keys must be whole numbers, got {match[1]}")
        else:
            rest.append(text)
    if rest and set(wanted) <= {TYPES["NoneType"]}:
        return f"is refused: {'; '.join(dict.fromkeys(rest))}"
    got = _got(message)
    only_lists = TYPES["list"] in wanted and {*wanted} <= {TYPES["list"], TYPES["NoneType"]}
    if only_lists and re.fullmatch(r", got -?\w+", got):
        got += f'; for example "[{got.removeprefix(", got ")}]"'
    return f"must be {' or '.join(dict.fromkeys(wanted))}{got}"


def _got(message: str) -> str:
    values = re.findall(r"(?:Got value|Given value): (.*)", message)
    return f", got {values[0][:80]}" if values else ""
