"""The command line: Lightning's, with configs found by name, flags that win, checkpoints that describe themselves."""

from src.cli.entry import main
from src.cli.segmentation_cli import SegmentationCLI

__all__ = ["SegmentationCLI", "main"]
