"""Which checkpoint is meant: a file, the folder of a run, or the best or last one there is."""

from collections.abc import Iterable
from pathlib import Path

KINDS = ("best", "last")


def find_checkpoint(told: str, subcommand: str, runs: str, name: str | None) -> str:
    """The checkpoint that is meant.

    Args:
        told: a file; the folder of a run, or one with runs in it, of which the newest counts; or ``best`` or ``last``,
            of the newest run that has one.
        subcommand: ``fit`` goes on with the last checkpoint of a folder, the others take the best where there is one.
        runs: folder of all runs.
        name: name of the runs to look through; None for all of them.

    Raises:
        FileNotFoundError: there is no such checkpoint.
    """
    kinds: tuple[str, ...] = (told,) if told in KINDS else ("last",) if subcommand == "fit" else KINDS
    folder = Path(told)
    if folder.is_file() and told not in KINDS:
        return told
    if told in KINDS:
        folder = Path(runs, name or "")
    if found := _within(folder, kinds):
        run = max(found, key=_written).parent
        return str(next(run / f"{kind}.ckpt" for kind in kinds if (run / f"{kind}.ckpt") in found))
    there = sorted(_within(Path(runs), KINDS), key=_written)[-6:]
    missing = f"and {folder} holds no {' or '.join(kinds)}.ckpt"
    reason = missing if told in KINDS or folder.is_dir() else "which does not exist"
    raise FileNotFoundError(
        f"--ckpt_path must be a checkpoint file, the folder of a run, best or last, got {told}, {reason}; "
        f"there {'are: ' + ', '.join(map(str, there)) if there else f'is none in {runs}'}{_hint(told)}."
    )


def find_weights(told: str, runs: str) -> str:
    """The weights that are meant: where a run is named as in ``find_checkpoint``, its checkpoint, best before last.

    Args:
        told: whatever ``model.weights`` takes, the folder of a run, ``best`` or ``last``.
        runs: folder of all runs.

    Raises:
        FileNotFoundError: ``best`` or ``last`` is asked for, and no run has one.
    """
    names_a_run = told in KINDS or (Path(told).is_dir() and _within(Path(told), KINDS))
    return find_checkpoint(told, "validate", runs, None) if names_a_run else told


def _within(folder: Path, kinds: Iterable[str]) -> list[Path]:
    """The checkpoints of a run's folder, of a folder of runs, or of one of these."""
    patterns = [f"{depth}{kind}.ckpt" for depth in ("", "*/", "*/*/") for kind in kinds]
    return [path for pattern in patterns for path in folder.glob(pattern)]


def _written(path: Path) -> float:
    return path.stat().st_mtime


def _hint(told: str) -> str:
    """How a model that is no checkpoint becomes one."""
    is_model = (Path(told) / "config.json").is_file() or told.partition(":")[0] in ("hf", "timm", "http", "https")
    return f"; `python -m src.convert_weights {told} model.ckpt --to toolkit` makes one of it" if is_model else ""
