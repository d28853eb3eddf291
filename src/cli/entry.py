"""Running the command line for a person: plain errors, no noise."""

import signal
import sys
import traceback
import warnings
from pathlib import Path

from lightning.pytorch.utilities.exceptions import SIGTERMException

from src.cli.segmentation_cli import SegmentationCLI

PACKAGE = Path(__file__).parents[1]
UNHELPFUL = (
    ".*exists and is not empty",  # the run's folder holds the config that was just written, nothing else
    ".*callbacks used to create the checkpoint need to be provided",  # scoring and predicting write no checkpoints
    ".*LeafSpec.* is deprecated",  # lightning's own call
)


def main(subcommand: str | None = None) -> None:
    """Run the command line; what is wrong with a user's input is said in a line, without a traceback.

    Args:
        subcommand: the subcommand, where the command line does not begin with it.
    """
    for entry in map(Path, sys.path):
        if (entry / "src" / "__init__.py").is_file() and (entry / "src").resolve() != PACKAGE.resolve():
            print(f"note: `src` is {PACKAGE}; the other one in {entry.resolve()} is not used", file=sys.stderr)
    leave_out_unhelpful_warnings()
    try:
        SegmentationCLI(subcommand)
    except SIGTERMException:
        sys.exit(128 + signal.SIGTERM)  # lightning's own status would be 0, as of a run that finished
    except Exception as error:
        message = message_for_user(error)
        if message is None:
            raise
        sys.exit(f"error: {message}")


def message_for_user(error: BaseException | None) -> str | None:
    """What this package said of its input, in ``error`` or one of its causes; None where it said nothing.

    Args:
        error: what ended a run; an error from a worker of a loader carries its traceback as text.
    """
    while error is not None:
        if isinstance(error, ValueError | FileNotFoundError):
            kind, text = type(error).__name__, str(error)
            if text.startswith(f"Caught {kind} in DataLoader worker") and str(PACKAGE) in text:
                return text.rpartition(f"\n{kind}: ")[2].strip()
            frames = traceback.extract_tb(error.__traceback__)
            if frames and PACKAGE in Path(frames[-1].filename).parents:
                return text
        error = error.__cause__ or error.__context__
    return None


def leave_out_unhelpful_warnings() -> None:
    """Leave out warnings that say nothing to a user."""
    for message in UNHELPFUL:
        warnings.filterwarnings("ignore", message=message)
