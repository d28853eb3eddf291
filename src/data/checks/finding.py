"""What a check says."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Finding:
    """One thing that is not as it should be.

    Args:
        severity: ``error`` stops the run, ``warning`` is likely a mistake, ``note`` may well be meant.
        message: what was found, where, and the option that mends it.
    """

    severity: Literal["error", "warning", "note"]
    message: str


def raise_errors(findings: Iterable[Finding]) -> None:
    """Raises one error with all that are among the findings.

    Args:
        findings: of all severities.

    Raises:
        ValueError: an error is among them.
    """
    errors = [finding.message for finding in findings if finding.severity == "error"]
    if errors:
        raise ValueError("\n".join(errors))


def percent(part: int, whole: int) -> str:
    """A share in words, never rounded to all or to nothing.

    Args:
        part: how many.
        whole: of how many.
    """
    share = 100 * part / whole
    if 0 < share < 0.1:
        return "less than 0.1 %"
    return f"{min(share, 99.9) if part < whole else share:.3g} %"
