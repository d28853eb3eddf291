"""Images and masks that cannot be read, or that do not fit together."""

from collections.abc import Iterator

from src.data.checks.facts import Scan
from src.data.checks.finding import Finding

_SHOWN = 5


def unusable_files(scan: Scan) -> Iterator[Finding]:
    """An error with what the readers say.

    Args:
        scan: masks of one split.
    """
    problems = [mask.problem for mask in scan.masks if mask.problem]
    if problems:
        more = [f"... and {len(problems) - _SHOWN} more"] if len(problems) > _SHOWN else []
        lines = "\n  ".join([*problems[:_SHOWN], *more])
        yield Finding("error", f"{len(problems)} of {scan.looked_at}, or their images, cannot be used:\n  {lines}")
