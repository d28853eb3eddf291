"""What a user should know of a command line that runs all the same."""

import sys
from collections.abc import Iterator

from jsonargparse import Namespace
from lightning.pytorch.utilities import rank_zero_only

from src.cli.changes import release_notes
from src.cli.command_line import SCORING, CommandLine
from src.cli.config_file import nested_items
from src.cli.left_out import left_out


@rank_zero_only
def note(text: str) -> None:
    """Say something in a line, in the first process.

    Args:
        text: what to say.
    """
    print(f"note: {text}", file=sys.stderr)


def notes_on(line: CommandLine, effective: Namespace) -> Iterator[str]:
    """What is left out, changed or without effect, a line each.

    Args:
        line: the command line.
        effective: the values that run.
    """
    for config in line.configs:
        if config.release is not None:
            keys = {key for key, value in nested_items(config.values) if value is not None}
            for text in release_notes(config.release, line.subcommand, keys):
                yield f"{config.path} was {text}"
    given = [*(key for config in line.configs for key in _that_count(line, config.values)), *line.flag_keys]
    yield from left_out(effective, given)
    if line.subcommand == "fit" and line.value("ckpt_path") and line.has_flag("--model.optimizer"):
        yield (
            "with --ckpt_path the optimizer goes on as the checkpoint has it, learning rate and weight decay included, "
            "whatever --model.optimizer says"
        )


def _that_count(line: CommandLine, values: dict) -> Iterator[str]:
    """The keys of a config but those of its model where a checkpoint brings one, and of its data where flags do."""
    rooms = {"model"} if line.subcommand in SCORING else set()
    rooms |= {"data"} if line.predicts_other_images else set()
    return (key for key, _ in nested_items(values) if key.partition(".")[0] not in rooms)
