"""Running the command line for a person: plain errors, no noise, a status that tells."""

import re
import signal
import sys
import traceback
import warnings
from pathlib import Path

import lightning
from lightning.pytorch.utilities.exceptions import MisconfigurationException, SIGTERMException

from src.cli.segmentation_cli import SegmentationCLI
from src.cli.usage_errors import UsageError

PACKAGE = Path(__file__).parents[1]
LIGHTNING = Path(lightning.__file__).parent
UNHELPFUL = (
    ".*exists and is not empty",  # the run's folder holds the config that was just written, nothing else
    ".*callbacks used to create the checkpoint need to be provided",  # scoring and predicting write no checkpoints
    ".*LeafSpec.* is deprecated",  # lightning's own call
    ".*Total length of `DataLoader` across ranks is zero",  # a predict job with nothing left to do
    ".*The dirpath has changed from",  # said of every run that goes on, and untrue of ours
    ".*local rank has zero length",  # fewer images than processes
)

FROM_ELSEWHERE = {
    r"DataLoader worker \(pid.*\) (is killed|exited unexpectedly)": "a process that reads images was ended from "
    "outside; where the memory was full, lower data.num_workers or data.batch_size",
    r"Connection (closed|reset) by peer": "another process of this run has ended; see what it said",
}
"""What torch says where the cause lies outside this process, and what a user should know of it."""


def main(subcommand: str | None = None) -> None:
    """Run the command line; what is wrong with a user's input is said in a line, without a traceback.

    The process ends with status 2 where the command line asks for something that there is not, and with 1 after any
    other error or where some images could not be predicted.

    Args:
        subcommand: the subcommand, where the command line does not begin with it.
    """
    for entry in map(Path, sys.path):
        if (entry / "src" / "__init__.py").is_file() and (entry / "src").resolve() != PACKAGE.resolve():
            print(f"note: `src` is {PACKAGE}; the other one in {entry.resolve()} is not used", file=sys.stderr)
    show_warnings_plainly()
    try:
        failures = SegmentationCLI(subcommand).failures
    except SIGTERMException:
        sys.exit(128 + signal.SIGTERM)  # lightning's own status would be 0, as of a run that finished
    except UsageError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
    except Exception as error:
        message = message_for_user(error)
        if message is None:
            raise
        sys.exit(f"error: {message}")
    if failures:
        sys.exit(1)


def message_for_user(error: BaseException | None) -> str | None:
    """What was said of the user's input in ``error`` or one of its causes; None where nothing was.

    Said by this package, that is, or by the trainer, or by torch of what happened outside.

    Args:
        error: what ended a run; an error from a worker of a loader carries its traceback as text.
    """
    while error is not None:
        kind, text = type(error).__name__, str(error)
        if isinstance(error, MisconfigurationException):
            return text.strip()
        if isinstance(error, RuntimeError):
            for pattern, meaning in FROM_ELSEWHERE.items():
                if re.search(pattern, text):
                    return f"{meaning} ({text.strip().splitlines()[0]})"
        if isinstance(error, ValueError | FileNotFoundError | ImportError):
            text = "\n".join([text.strip(), *getattr(error, "__notes__", ())])
            frames = traceback.extract_tb(error.__traceback__)
            if text.startswith(f"Caught {kind} in DataLoader worker") and str(PACKAGE) in text:
                return _in_a_line(text.rpartition(f"\n{kind}: ")[2])
            if frames and {PACKAGE, LIGHTNING} & set(Path(frames[-1].filename).parents):
                return _in_a_line(text)
        error = error.__cause__ or error.__context__
    return None


def _in_a_line(text: str) -> str:
    """An error's text with the note on the files that were being read in brackets behind it."""
    said, _, files = text.strip().partition("\nwhile reading ")
    return f"{said} (while reading {files})" if files else said


def show_warnings_plainly() -> None:
    """Leave out warnings that say nothing to a user, and the line of code from the others."""
    warnings.formatwarning = lambda message, *_, **__: f"warning: {message}\n"
    for message in UNHELPFUL:
        warnings.filterwarnings("ignore", message=message)
