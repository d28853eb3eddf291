"""Docstrings say what the signatures say."""

import importlib
import inspect
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

PACKAGE = Path(__file__).parents[1] / "src"
MODULES = sorted(
    ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts)
    for path in PACKAGE.rglob("*.py")
    if path.name not in ("__init__.py", "__main__.py")
)


def public_functions(module: Any) -> Iterator[tuple[str, Any, Callable[..., Any]]]:
    """Name, what carries the docstring, and what carries the signature."""
    for name, member in vars(module).items():
        if name.startswith("_") or getattr(member, "__module__", None) != module.__name__:
            continue
        if inspect.isfunction(member):
            yield name, member, member
        elif inspect.isclass(member):
            if "__init__" in vars(member):
                yield name, member, member.__init__
            for method_name, method in vars(member).items():
                method = getattr(method, "__func__", method)
                if not method_name.startswith("_") and inspect.isfunction(method):
                    yield f"{name}.{method_name}", method, method


def documented(docstring: str) -> list[str] | None:
    """The arguments of a docstring's section Args, or the fields of a record's Attributes; None without either."""
    match = re.search(r"^(?:Args|Attributes):\n((?: {4,}.*\n|\n)+)", inspect.cleandoc(docstring) + "\n", re.MULTILINE)
    return re.findall(r"^ {4}(\*{0,2}\w+):", match[1], re.MULTILINE) if match else None


def parameters(function: Callable[..., Any]) -> list[str]:
    marks = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
    named = inspect.signature(function).parameters.values()
    return [marks.get(p.kind, "") + p.name for p in named if p.name not in ("self", "cls")]


def agree(told: list[str] | None, given: list[str]) -> bool:
    """Whether the docstring fits; an only argument may go without saying."""
    return told == given if told is not None else len(given) <= 1


@pytest.mark.parametrize("module_name", MODULES)
def test_args_are_the_parameters(module_name):
    wrong = {}
    for name, owner, function in public_functions(importlib.import_module(module_name)):
        assert owner.__doc__, f"{name} needs a docstring"
        told, given = documented(owner.__doc__), parameters(function)
        if not agree(told, given):
            wrong[name] = (told, given)
    assert wrong == {}


def test_the_rule_itself_can_fail():
    def wrong(a: int, *b: int) -> None:
        """Does.

        Args:
            a: one.
        """

    assert documented(wrong.__doc__) == ["a"]
    assert parameters(wrong) == ["a", "*b"]
    assert not agree(["a"], ["a", "*b"])
    assert not agree(None, ["a", "b"])
