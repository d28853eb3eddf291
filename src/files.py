"""Writing files so that nobody ever sees half of one."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def written_beside(path: Path) -> Iterator[Path]:
    """Gives a path beside ``path`` to write to; it is renamed to ``path`` at the end, or removed after an error.

    Args:
        path: the file to write; its folder is made where there is none.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        yield beside
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)
