"""Where a run writes."""

from datetime import datetime
from pathlib import Path

from lightning.pytorch.utilities import rank_zero_only


def make_run_folder(runs: str, name: str) -> Path:
    """A new folder ``<runs>/<name>/<time>``; the first process makes it, the others are told of it by the logger.

    Args:
        runs: folder of all runs.
        name: name of the run.

    Raises:
        ValueError: the folder cannot be made.
    """
    time = datetime.now().strftime("%Y-%m-%d_%H-%M-%S")
    for number in range(1, 1000):
        folder = Path(runs, name, time if number == 1 else f"{time}_{number}")
        if getattr(rank_zero_only, "rank", 0) != 0:
            return folder
        try:
            folder.mkdir(parents=True)
        except FileExistsError:
            continue
        except OSError as error:
            raise ValueError(
                f"--runs must be a folder to write to, got {runs}, where {folder} cannot be made ({error.strerror}); "
                f"give another."
            ) from error
        return folder
    raise FileExistsError(f"no new folder could be made in {Path(runs, name)}; give another --name.")
