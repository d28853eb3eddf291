"""``make demo``: trains a small model on the embedded sample, scores it, predicts, and says where to look."""

import argparse
import shlex
import sys
from pathlib import Path

from src.cli import SegmentationCLI
from src.cli.entry import show_warnings_plainly
from src.data.sample import DEFAULT_ROOT

TARGET = 0.6
"""mIoU from which the masks look right."""


def run(subcommand: str, *arguments: str) -> SegmentationCLI:
    """Show a command as one would type it, and run it.

    Args:
        subcommand: fit, validate or predict.
        *arguments: its arguments.
    """
    print(f"\n$ python -m src.{subcommand} {shlex.join(arguments)}", flush=True)
    return SegmentationCLI(subcommand, list(arguments))


def main() -> None:
    """Train, validate and predict; exits with an error where the model has not learned."""
    argparse.ArgumentParser(prog="python -m src.demo", description=__doc__).parse_args()
    show_warnings_plainly()
    folder = Path(str(run("fit", "--config", "sample.yaml").trainer.log_dir))
    best = str(folder / "best.ckpt")
    validation = run("validate", "--config", "sample.yaml", "--ckpt_path", best).trainer
    images, masks = DEFAULT_ROOT / "images" / "validation", folder / "masks"
    run(
        "predict", "--ckpt_path", best, "--data.images", str(images), "--data.num_workers", "0",
        "--output", str(masks), "--overlay", "true",
    )  # fmt: skip
    score = float(validation.callback_metrics["val/miou"])
    print(
        f"\nmIoU     {score:.3f}\nmasks    {masks}/*.png\noverlays {masks}/*_overlay.jpg\n"
        f"panels   {folder}/panels/ (image | label | prediction)\ncurves   {folder}/curves.png\nmodel    {best}"
    )
    if score < TARGET:
        sys.exit(f"error: the model must reach an mIoU of {TARGET}, got {score:.3f}; please report it.")


if __name__ == "__main__":
    main()
