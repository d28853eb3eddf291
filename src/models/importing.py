"""Importing what a file names: installed packages and those on PYTHONPATH, nothing that merely lies about."""

import importlib
import importlib.util
import os
import sys
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Any


def imported(path: str) -> Any:
    """The object at a dotted path that a checkpoint or a config of a model names.

    Python's own modules hold no parts of models, and the working folder may be one that was fetched together with the
    file: neither is imported from.

    Args:
        path: ``package.module.Name``.

    Raises:
        ImportError: the module or the name in it does not exist, or may not be imported.
    """
    module, _, name = path.rpartition(".")
    package = module.partition(".")[0]
    if package not in sys.modules:
        _check_place(path, package)
    try:
        return getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise ImportError(
            f"{path} is needed to build this model but cannot be imported ({error}); install the package that holds it."
        ) from error


def _check_place(path: str, package: str) -> None:
    if package in sys.stdlib_module_names:
        raise ImportError(
            f"{path} is needed to build this model, and {package} is a module of Python itself; the file is damaged or "
            f"made to mislead."
        )
    try:
        spec = importlib.util.find_spec(package) if package else None
    except (ImportError, ValueError):
        return
    places = [] if spec is None else [*(spec.submodule_search_locations or ()), *filter(None, [spec.origin])][:1]
    here = Path.cwd().resolve()
    asked_for = {Path(entry).resolve() for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry}
    lies_about = any(Path(place).resolve().parent == here for place in places) and here not in asked_for
    if lies_about and package not in packages_distributions():
        raise ImportError(
            f"{path} is needed to build this model and would be imported from the working folder, which a file must "
            f"not decide; where {package} is yours, start again with PYTHONPATH=. before the command."
        )
