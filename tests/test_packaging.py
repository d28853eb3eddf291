"""The project's files agree with one another."""

import re
import tomllib
from pathlib import Path

import yaml
from setuptools import find_packages

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def test_environment_has_the_ranges_of_the_project():
    environment = yaml.safe_load((ROOT / "environment.yml").read_text())
    conda = [entry for entry in environment["dependencies"] if isinstance(entry, str)]
    (pip,) = [entry["pip"] for entry in environment["dependencies"] if isinstance(entry, dict)]
    project = PROJECT["project"]
    assert f"python{project['requires-python']}" in conda
    assert pip == [*project["dependencies"], *project["optional-dependencies"]["test"], "--editable ."]
    assert environment["name"] == project["name"]


def test_releases_known_to_be_harmful_are_shut_out():
    ranges = dict(re.match(r"([\w-]+)(?:\[.*\])?(.*)", entry).groups() for entry in PROJECT["project"]["dependencies"])
    assert {"!=2.6.2", "!=2.6.3"} <= set(ranges["lightning"].split(","))
    assert "<5" in ranges["jsonargparse"].split(",")
    assert ranges["torch"] == ">=2.9"


def test_only_src_is_packaged():
    found = find_packages(str(ROOT), include=PROJECT["tool"]["setuptools"]["packages"]["find"]["include"])
    assert "src" in found
    assert all(name == "src" or name.startswith("src.") for name in found)
    assert {f"src.{path.parent.name}" for path in ROOT.glob("src/*/__init__.py")} <= set(found)


def test_the_licence_is_the_one_that_is_declared():
    assert PROJECT["project"]["license"] == "Apache-2.0"
    assert "Apache License" in (ROOT / "LICENSE").read_text()[:200]


def test_a_test_stands_where_its_code_stands():
    """Each file of ``tests`` mirrors a file or a folder of ``src``, or speaks of the whole."""
    whole = {"architecture", "docstrings", "packaging", "configs", "readme"}
    for path in (ROOT / "tests").rglob("test_*.py"):
        place = path.relative_to(ROOT / "tests")
        if place.parts[0] in ("contracts", "benchmarks") or place.stem.removeprefix("test_") in whole:
            continue
        folder, name = ROOT / "src" / place.parent, place.stem.removeprefix("test_")
        known = [entry.stem for entry in folder.iterdir()]
        assert any(name == entry or name.startswith(f"{entry}_") for entry in known), f"{place} mirrors nothing"
