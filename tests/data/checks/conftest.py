"""A data set drawn for one test, and what the checks say of it."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from drawn_files import save, texture

from src.data import MaskFolder
from src.data.checks import Finding, check_files

Masks = Sequence[np.ndarray]


@pytest.fixture
def drawn(tmp_path: Path) -> Callable[..., MaskFolder]:
    """Training masks, classes and arguments to a data set; the validation masks are the same on other images."""

    def build(masks: Masks, classes: str = "sky\nroad\n", val: Masks | None = None, **arguments: Any) -> MaskFolder:
        for split, group in (("train", masks), ("val", masks if val is None else val)):
            for index, mask in enumerate(group):
                size = (mask.shape[0], mask.shape[1])
                save(tmp_path / split / "images" / f"{index:03d}.png", texture(size, 2 * index + (split == "val")))
                save(tmp_path / split / "masks" / f"{index:03d}.png", mask)
        (tmp_path / "classes.txt").write_text(classes)
        folders = {
            f"{prefix}{kind}": f"{tmp_path}/{split}/{kind}"
            for prefix, split in (("", "train"), ("val_", "val"))
            for kind in ("images", "masks")
        }
        return MaskFolder(**folders, classes=f"{tmp_path}/classes.txt", **arguments)

    return build


@pytest.fixture
def findings() -> Callable[..., list[Finding]]:
    """All that is said of a data set."""

    def look(data: MaskFolder, full: bool = False) -> list[Finding]:
        splits = {"training": data.pairs("train"), "validation": data.pairs("val")}
        return check_files(splits, data.sources(), data.classes, full=full)

    return look


@pytest.fixture
def scored_findings() -> Callable[..., list[Finding]]:
    """All that is said of a data set whose validation images are only scored."""
    return lambda data: check_files({"scored": data.pairs("val")}, data.sources(), data.classes)
