"""What changed from release to release, for those who run a config that an older one saved."""

from collections.abc import Collection, Iterator
from typing import NamedTuple

from src import __version__


class Change(NamedTuple):
    """Something that a release does differently from the one before.

    Attributes:
        release: the first release that does so.
        what: the change and what to do about it, in a line.
        commands: the subcommands that it concerns.
        key: the option that it concerns, as in a flag without its dashes; None where every run is concerned.
        successor: the option that took the place of ``key``, where that is gone.
    """

    release: str
    what: str
    commands: tuple[str, ...]
    key: str | None = None
    successor: str | None = None


CHANGES: tuple[Change, ...] = (
    Change("0.2.0", "the data are checked before the first step; --data.check off leaves that out", ("fit",)),
    Change(
        "0.2.0",
        "trainer.default_root_dir takes the place of --runs, and runs no longer write into the folder itself",
        ("fit", "validate", "test"),
        "trainer.default_root_dir",
    ),
    Change(
        "0.2.0",
        "masks of another checkpoint in the folder of --output are an error; --overwrite true replaces them",
        ("predict",),
    ),
    Change(
        "0.3.0",
        "packages that a checkpoint names are not imported from the working folder unless PYTHONPATH has it",
        ("validate", "test", "predict"),
    ),
)


def release_notes(saved_by: str, command: str, keys: Collection[str]) -> Iterator[str]:
    """What to know when a config of another release is run, a line each.

    Args:
        saved_by: the release that saved the config.
        command: the subcommand that runs it.
        keys: the keys that the config gives a value, as in flags without dashes.
    """
    if _order(saved_by) > _order(__version__):
        yield f"made by release {saved_by}, and this is {__version__}: what is newer is not known here"
    for change in CHANGES:
        concerned = command in change.commands and (change.key is None or change.key in keys)
        if concerned and _order(saved_by) < _order(change.release):
            yield f"made by release {saved_by}; since {change.release} {change.what}"


def successor(key: str) -> str | None:
    """The option that took the place of one that is gone, in words; None where there never was such a one.

    Args:
        key: the option that is not known, as in a flag without its dashes.
    """
    change = next((change for change in CHANGES if change.key == key and change.successor), None)
    return change and f"since release {change.release} it is --{change.successor}"


def _order(release: str) -> tuple[int, ...]:
    return tuple(int(part) if part.isdigit() else 0 for part in release.split("."))
