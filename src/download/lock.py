"""Keeping other processes waiting."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout


@contextmanager
def one_at_a_time(path: Path) -> Iterator[None]:
    """Keeps other processes that would make the same file or folder waiting.

    Args:
        path: what is made; its folder is made where there is none, and the lock stands in it.

    Raises:
        ValueError: the folder cannot be written to.
    """
    lock = FileLock(path.with_name(f".{path.name}.lock"))
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock.acquire(timeout=0)
    except Timeout:
        print(f"another process makes {path}; waiting for it", file=sys.stderr)
        lock.acquire()
    except OSError as error:
        raise ValueError(
            f"{path.parent.absolute()} must be a folder to write to, got {error.strerror}; choose another."
        ) from error
    try:
        yield
    finally:
        lock.release()
