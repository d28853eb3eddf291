"""How far a download is."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from src.download.part import Part

_QUIET_SECONDS = 30


@contextmanager
def progress(part: Part, have: int, length: int | None) -> Iterator[Callable[[int], None]]:
    """A bar on a terminal, and a line now and then elsewhere; gives what is told how many bytes have arrived.

    Args:
        part: what arrives.
        have: bytes that are there already.
        length: bytes of the whole file; None where nobody knows.
    """
    from rich.console import Console  # only who downloads needs it
    from rich.filesize import decimal
    from rich.progress import BarColumn, DownloadColumn, Progress, TimeRemainingColumn, TransferSpeedColumn

    console = Console(stderr=True)
    if console.is_terminal:
        columns = (BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
        with Progress(part.target.name, *columns, console=console) as bar:
            task = bar.add_task("", total=length, completed=have)
            yield lambda now: bar.update(task, completed=now)
        return
    size = "" if length is None else f" of {decimal(length)}"
    said = float(-_QUIET_SECONDS)

    def say(now: int) -> None:
        nonlocal said
        if time.monotonic() - said >= _QUIET_SECONDS:
            said = time.monotonic()
            print(f"{part.url}: {decimal(now)}{size}", file=sys.stderr)

    say(have)
    yield say
