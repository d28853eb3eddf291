"""What is looked at before training, so that files that cannot be learned from are told at once."""

from src.data.checks.finding import Finding, raise_errors
from src.data.checks.run import check_files

__all__ = ["Finding", "check_files", "raise_errors"]
