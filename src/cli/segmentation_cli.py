"""Lightning's command line for this package's tasks and data: parser, links, the order in which values win."""

import sys
from argparse import ArgumentError
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

from jsonargparse import set_parsing_settings
from lightning.pytorch import Trainer
from lightning.pytorch.cli import ArgsType, LightningArgumentParser, LightningCLI
from lightning.pytorch.utilities import rank_zero_only
from lightning.pytorch.utilities.exceptions import MisconfigurationException
from omegaconf.errors import OmegaConfBaseException
from torch import nn

from src import __version__
from src.callbacks import BestAndLast, ImagePanels, PredictionWriter, PreparedNetwork
from src.classes import ClassList
from src.cli.checkpoints import find_checkpoint, find_weights
from src.cli.command_line import SCORING, SUBCOMMANDS, CommandLine, parser_words, read_command_line
from src.cli.config_file import inline
from src.cli.equipment import equipped
from src.cli.notes import note, notes_on
from src.cli.saved_config import SavedConfig
from src.cli.usage_errors import EXAMPLES, UsageError, check_groups, in_words
from src.data.datamodule import SegmentationDataModule
from src.inference.checkpoint import load_checkpoint, read_section
from src.models.settings import build_recorded
from src.preprocessing import Preprocessing
from src.tasks import SemanticSegmentation

RUNS = "Folder of all runs: <runs>/<name>/<time>/; trainer.default_root_dir takes its place where that is given."
NUM_CLASSES = "model.init_args.model.init_args.num_classes"


class Parser(LightningArgumentParser):
    """Takes whole names of options only, and raises what it refuses.

    Args:
        *args: see Lightning.
        **kwargs: see Lightning.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        defaults: dict[str, Any] = {"exit_on_error": False, "allow_abbrev": False, "parser_mode": "omegaconf+"}
        super().__init__(*args, **defaults | kwargs)


class SegmentationCLI(LightningCLI):
    """``fit``, ``validate``, ``test`` and ``predict`` for the task and the data module that a config names.

    Values come, the last wins, from the configs in their order, the checkpoint and the flags, wherever they stand. What
    comes from a checkpoint is the model and its preprocessing, in every subcommand but ``fit``, so that scoring and
    predicting need no more than was asked of the data. What a config holds for other subcommands is passed over.

    Args:
        subcommand: the subcommand, where the command line does not begin with it.
        args: the command line's arguments; None for those of the process.

    Raises:
        FileNotFoundError: a config, a checkpoint or data do not exist.
        UsageError: the command line asks for something that there is not.
        ValueError: an input cannot be used.
    """

    def __init__(self, subcommand: str | None = None, args: ArgsType = None) -> None:
        set_parsing_settings(omegaconf_absolute_to_relative_paths=True)
        self.default_subcommand = subcommand
        self.told_num_classes: int | None = None
        self.resumed_step: int | None = None
        self.runs = "runs"
        super().__init__(
            SemanticSegmentation,
            SegmentationDataModule,
            save_config_callback=None,
            trainer_defaults={"use_distributed_sampler": False},
            seed_everything_default=0,
            parser_class=Parser,
            subclass_mode_model=True,
            subclass_mode_data=True,
            args=args,
            auto_configure_optimizers=False,
            load_from_checkpoint_support=False,
        )

    def _prepare_subcommand_parser(self, klass: type, subcommand: str, **kwargs: Any) -> LightningArgumentParser:
        parser = super()._prepare_subcommand_parser(klass, subcommand, **kwargs)
        parser.set_defaults({"weights_only": True})
        parser.add_argument("--name", type=str | None, default=None, help="Name of the run; null: the first config's.")
        parser.add_argument("--runs", type=str, default="runs", help=RUNS)
        parser.add_argument("--release", type=str, default=__version__, help="Release that a config was saved by.")
        parser.add_lightning_class_args(BestAndLast, "checkpoint")
        parser.add_lightning_class_args(PreparedNetwork, "execution")
        parser.add_lightning_class_args(ImagePanels, "panels")
        if subcommand == "fit":
            parser.link_arguments("data.num_classes", NUM_CLASSES, apply_on="instantiate")
            for name in ("classes", "preprocessing"):
                parser.link_arguments(f"data.{name}", f"model.init_args.{name}", _as_dict, apply_on="instantiate")
        if subcommand in ("validate", "test"):
            parser.set_defaults({"verbose": False})
        if subcommand == "predict":
            parser.set_defaults({"data": {"class_path": "src.data.ImageFolder"}, "return_predictions": False})
            parser.add_argument("--output", type=str, required=True, help="Folder for the masks.")
            parser.add_argument("--overlay", type=bool, default=False, help="Also write the masks over the images.")
            parser.add_argument("--overwrite", type=bool, default=False, help="Also redo masks that are there already.")
        return parser

    def parse_arguments(self, parser: LightningArgumentParser, args: ArgsType) -> None:
        """Parse the command line, the checkpoint's settings as one more config.

        Args:
            parser: the parser with all subcommands.
            args: arguments, or None for those of the process.

        Raises:
            FileNotFoundError: a config or the checkpoint does not exist.
            UsageError: the command line asks for something that there is not.
            ValueError: a config or the checkpoint cannot be read.
        """
        words = sys.argv[1:] if args is None else [str(word) for word in cast("list[str]", args)]
        line = read_command_line([self.default_subcommand, *words] if self.default_subcommand else words)
        self.runs = line.runs
        try:
            self.config = parser.parse_args(self._arranged(line))
        except ArgumentError as error:
            raise UsageError(in_words(str(error), line, self._options(line.subcommand))) from error
        except OmegaConfBaseException as error:
            where = str(error.full_key).removeprefix(f"{line.subcommand}.")
            hint = "; the number of classes follows from the data" if "num_classes" in str(error) else ""
            raise UsageError(
                f"{where} refers to a value that is not there: {str(error).splitlines()[0]}{hint}."
            ) from error
        for text in notes_on(line, self.config[line.subcommand]):
            note(text)

    def _options(self, subcommand: str) -> list[str]:
        parser = self._subcommand_parsers.get(subcommand)
        return list(parser.get_defaults(skip_validation=True).keys()) if parser else []

    def _arranged(self, line: CommandLine) -> list[str]:
        """The words for the parser: the configs, the checkpoint's settings, the flags."""
        command = line.subcommand
        if command not in SUBCOMMANDS or line.asks_for_help:
            return [*filter(None, [command]), *line.flags]
        if command == "fit" and not line.configs and not line.has_flag("--model"):
            raise UsageError(f"--config must be given to fit, for example `{EXAMPLES['fit']}`.")
        refers = "${" in (line.run_name or "")
        if line.run_name and not refers:
            name = line.run_name if command == "fit" else f"{line.run_name}-{command}"
            self._subcommand_parsers[command].set_defaults({"name": name})
        check_groups(line, self._options(command))
        others = {key.partition(".")[0] for other in SUBCOMMANDS for key in self._options(other)}
        own = {key.partition(".")[0] for key in self._options(command)}
        passed_over = frozenset((others - own | {"release", "ckpt_path"}) | ({"name"} if not refers else set()))
        configs = [config.word(passed_over) for config in line.configs]
        checkpoint = self._told_by_checkpoint(line)
        if line.predicts_other_images:
            checkpoint.append("--data=src.data.ImageFolder")
        return [command, *configs, *checkpoint, *parser_words(line.without_flag("--ckpt_path"))]

    def _told_by_checkpoint(self, line: CommandLine) -> list[str]:
        if "" in line.flag_values("--ckpt_path"):
            raise UsageError("--ckpt_path must have a value, got none.")
        told = str(line.value("ckpt_path") or "null")
        if told == "null":
            if line.subcommand in SCORING:
                raise UsageError(
                    f"--ckpt_path must be given to {line.subcommand}: a checkpoint that `python -m src.fit` wrote, for "
                    f"example `{EXAMPLES[line.subcommand]}`."
                )
            return []
        name = next(line.flag_values("--name"), line.run_name)
        path = find_checkpoint(told, line.subcommand, line.runs, name)
        if path != told:
            note(f"--ckpt_path {told} is {path}")
        words = [f"--ckpt_path={path}"]
        if line.subcommand == "fit":
            checkpoint = load_checkpoint(path)
            if missing := [key for key in ("optimizer_states", "lr_schedulers", "loops") if key not in checkpoint]:
                raise ValueError(
                    f"--ckpt_path must hold a run that fit can go on with, got {path} with weights alone, without "
                    f"{', '.join(missing)}; give the run's last.ckpt."
                )
            self.resumed_step = checkpoint.get("global_step")
            return words
        section = read_section(path)
        data = {"init_args": {"preprocessing": section["preprocessing"]}}
        return [inline({"model": section["task"], "data": data}), *words]

    def _parse_ckpt_path(self) -> None:
        """Nothing: the checkpoint's settings were a config already, so that flags win over them."""

    def before_instantiate_classes(self) -> None:
        """Prepare what classes need: links that flags may have cut, and modules that remember their arguments."""
        model = self._get(self.config, "model")
        if self.subcommand == "fit" and model is not None and "model.init_args" in model.init_args:
            # A flag below model.model drops the linked key from the parsed values, and the link is then passed over.
            self.told_num_classes = model.init_args.model.init_args.get("num_classes")
            model.init_args.model.init_args.num_classes = 1
        self.parser.add_instantiator(build_recorded, nn.Module, subclasses=True)

    def after_instantiate_classes(self) -> None:
        """Compare the number of classes that a config or flag gives with that of the data, which counts.

        Raises:
            ValueError: they differ.
        """
        if self.told_num_classes not in (None, self.datamodule.num_classes):
            raise ValueError(
                f"model.model.num_classes must be the data's number of classes, {self.datamodule.num_classes}, got "
                f"{self.told_num_classes}; leave it out, it follows from the data."
            )

    def instantiate_trainer(self, **kwargs: Any) -> Trainer:
        """The trainer, with the run's folder, loggers and callbacks beside the config's own.

        Args:
            **kwargs: arguments of the trainer that win over the config's.

        Raises:
            ValueError: the trainer refuses its settings.
        """
        command = cast("str", self.subcommand)
        config = self.config_init[command]
        arguments = equipped({**config.trainer, **kwargs}, command, config)
        if command != "predict" and not arguments.get("fast_dev_run"):
            parser, folder = self._parser(command), arguments["default_root_dir"]
            arguments["callbacks"].append(SavedConfig(parser, self.config[command], folder))
        try:
            return self.trainer_class(**arguments)
        except (TypeError, ValueError, MisconfigurationException) as error:
            raise ValueError(f"the trainer refuses its settings: {error}") from error

    def before_fit(self) -> None:
        """Say which callbacks there are, and load the weights to start from before the data are looked at."""
        rank_zero_only(print)(f"callbacks: {', '.join(type(callback).__name__ for callback in self.trainer.callbacks)}")  # type: ignore[attr-defined]

        if not isinstance(self.model, SemanticSegmentation) or self.model.weights is None:
            return
        if self.resumed_step is not None:
            self.model.weights = None  # the checkpoint's take their place, and the file may be gone
            return
        try:
            self.model.weights = find_weights(self.model.weights, self.runs)
            self.model.start_from_weights()
        except Exception:
            with suppress(OSError):  # the run has not begun
                Path(self.trainer.default_root_dir).rmdir()
            raise

    def after_fit(self) -> None:
        """Say where a run that goes on had nothing left to do."""
        if self.resumed_step is not None and self.trainer.global_step == self.resumed_step:
            note(
                f"nothing was left to train: the checkpoint has {self.resumed_step} steps already; raise "
                f"trainer.max_steps or trainer.max_epochs to go on"
            )

    @property
    def failures(self) -> dict[str, str]:
        """The images that ``predict`` could not do, and why."""
        writers = [callback for callback in self.trainer.callbacks if isinstance(callback, PredictionWriter)]  # type: ignore[attr-defined]
        return writers[0].failures if writers else {}


def _as_dict(value: ClassList | Preprocessing) -> dict[str, Any]:
    return value.to_dict()
