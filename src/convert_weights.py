"""``python -m src.convert_weights``: write weights as another library has them, or list the named ones."""

import argparse
import os
import re
import sys
from collections.abc import Sequence

from src.weights.convert import TARGETS, convert
from src.weights.named import table_lines
from src.weights.options import named_classes

_EXAMPLES = """examples:
  python -m src.convert_weights --list
  python -m src.convert_weights upernet_swin_tiny_ade20k ade20k.ckpt --to toolkit
  python -m src.predict --ckpt_path ade20k.ckpt --data.images photos/ --output masks/
  python -m src.convert_weights runs/street/best.ckpt street/ --to transformers
"""


def main(arguments: Sequence[str] | None = None) -> None:
    """Convert, and say what was written and what the target does not hold.

    The process ends with status 2 where the command line is wrong, and with 1 after any other error.

    Args:
        arguments: the words of the command line; None for those of this process.
    """
    parser = _parser()
    told = parser.parse_args(arguments)
    if told.list:
        try:
            print("\n".join(table_lines()), flush=True)
        except BrokenPipeError:  # whoever reads, `head` for example, has had enough
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return
    if told.source is None or told.out is None or told.to is None:
        parser.error("IN, OUT and --to must be given, or --list alone")
    try:
        classes = None if told.classes is None else named_classes(told.classes)
        print(convert(told.source, told.out, told.to, told.image_size, classes, told.prefix, told.overwrite))
    except (ValueError, FileNotFoundError, ImportError) as error:
        sys.exit(f"error: {error}")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m src.convert_weights",
        description="Write published weights as another library has them, bit for bit.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("source", metavar="IN", nargs="?", help="a name of --list, a file, a folder, an address, "
                        "hf:owner/name[@revision] or timm:name")  # fmt: skip
    parser.add_argument("out", metavar="OUT", nargs="?", help="a .pth, .pt, .bin, .ckpt or .safetensors file; for "
                        "transformers a folder")  # fmt: skip
    parser.add_argument("--to", choices=TARGETS, help="the library; toolkit: a .ckpt that src.predict and src.validate "
                        "take, or a file of this toolkit's names")  # fmt: skip
    parser.add_argument("--image-size", type=_pixels, metavar="N", help="height and width of the images that the "
                        "target's model is built for, in pixels")  # fmt: skip
    parser.add_argument("--classes", metavar="FILE", help="what the outputs stand for: a text file with one class a "
                        "line, or `ade20k`")  # fmt: skip
    parser.add_argument("--prefix", metavar="P", help="what stands before the names of the model that is meant")
    parser.add_argument("--overwrite", action="store_true", help="replace OUT")
    parser.add_argument("--list", action="store_true", help="list the named weights")
    return parser


def _pixels(text: str) -> int:
    if not re.fullmatch("0*[1-9][0-9]{0,5}", text):
        raise argparse.ArgumentTypeError(f"must be a whole number of pixels from 1 to 999999, got {text[:20]}")
    return int(text)


if __name__ == "__main__":
    main()
