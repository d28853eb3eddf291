"""``python -m src.benchmark``: counts, time and memory of the models, beside other libraries in one run."""

import sys
from collections.abc import Sequence

from src.measurement.command import run


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, and print the tables.

    The process ends with status 2 where the command line is wrong, and with 1 after any other error or, with
    ``--check``, where a ratio is missed.

    Args:
        arguments: the words of the command line; None for those of this process.
    """
    try:
        status = run(arguments)
    except (ValueError, FileNotFoundError, ImportError) as error:
        sys.exit(f"error: {error}")
    if status:
        sys.exit(status)


if __name__ == "__main__":
    main()
