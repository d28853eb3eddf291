"""The rooms of ``src`` and which may import which."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "src"
ORDER = [
    {"__version__", "files", "download", "image_io", "classes", "preprocessing", "wording", "layers"},
    {"models"},
    {"weights", "losses", "metrics", "optim", "data", "inference"},
    {"tasks"},
    {"callbacks"},
    {"cli"},
    {"measurement"},
    {"__main__", "fit", "validate", "test", "predict", "demo", "convert_weights", "benchmark"},
]
LEVELS = {room: level for level, rooms in enumerate(ORDER) for room in rooms}
WITH_LIGHTNING = {"tasks", "callbacks", "cli", "measurement", *ORDER[-1]}
FILES = sorted(path for path in PACKAGE.rglob("*.py") if path != PACKAGE / "__init__.py")


def room_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imports(source: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "relative imports hide their room"
            yield from ([f"src.{alias.name}" for alias in node.names] if node.module == "src" else [node.module or ""])


def forbidden(room: str, module: str) -> bool:
    top, _, rest = module.partition(".")
    other = rest.partition(".")[0]
    return top == "src" and other != room and LEVELS[other] >= LEVELS[room]


def test_every_room_has_its_place():
    assert {room_of(path) for path in FILES} <= LEVELS.keys()


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(PACKAGE).as_posix())
def test_imports_run_one_way(path):
    assert [module for module in imports(path.read_text()) if forbidden(room_of(path), module)] == []


WITHOUT_LIGHTNING = [
    path for path in FILES if room_of(path) not in WITH_LIGHTNING and path != PACKAGE / "data" / "datamodule.py"
]


@pytest.mark.parametrize("path", WITHOUT_LIGHTNING, ids=lambda path: path.relative_to(PACKAGE).as_posix())
def test_lightning_stays_above(path):
    assert [module for module in imports(path.read_text()) if module.partition(".")[0] == "lightning"] == []


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(PACKAGE).as_posix())
def test_files_and_functions_are_short(path):
    source = path.read_text()
    assert source.count("\n") <= 300
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef):
            first = node.body[0]
            docstring = first.end_lineno - first.lineno + 1 if ast.get_docstring(node) else 0
            assert node.end_lineno - node.lineno + 1 - docstring <= 60, node.name


def test_the_rule_itself_can_fail():
    assert forbidden("layers", "src.models.swin")
    assert forbidden("losses", "src.data.batch")
    assert not forbidden("tasks", "src.data.batch")
    assert list(imports("from src import data\nimport lightning.pytorch")) == ["src.data", "lightning.pytorch"]
