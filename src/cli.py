"""The command line: Lightning's, with configs found by name, flags that win, checkpoints that describe themselves."""

import json
import os
import sys
import traceback
import warnings
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, cast

os.environ.setdefault("NO_ALBUMENTATIONS_UPDATE", "1")  # or albumentations asks the network for its newest version

import yaml
from jsonargparse import set_parsing_settings
from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.callbacks import Callback, RichProgressBar
from lightning.pytorch.cli import ArgsType, LightningArgumentParser, LightningCLI
from lightning.pytorch.loggers import CSVLogger, TensorBoardLogger
from torch import nn

from src.callbacks import BestAndLast, ClassTable, ImagePanels, LearningCurves, PredictionWriter
from src.data.datamodule import SegmentationDataModule
from src.inference.checkpoint import read_section
from src.models.settings import build_recorded

PACKAGE = Path(__file__).parent
CONFIGS = PACKAGE.parent / "configs"
SUBCOMMANDS = ("fit", "validate", "test", "predict")
UNHELPFUL = (
    ".*exists and is not empty",  # the run's folder holds the config that was just written, nothing else
    ".*callbacks used to create the checkpoint need to be provided",  # scoring and predicting write no checkpoints
    ".*LeafSpec.* is deprecated",  # lightning's own call
)
NUM_CLASSES = "model.init_args.model.init_args.num_classes"


class SegmentationCLI(LightningCLI):
    """``fit``, ``validate``, ``test`` and ``predict`` for every task and data module that a config names.

    Values come, the last wins, from the configs in their order, the checkpoint and the flags, wherever they stand. What
    comes from a checkpoint is the model and its preprocessing, in every subcommand but ``fit``, so that scoring and
    predicting need no more than was asked of the data.

    Args:
        subcommand: the subcommand, where the command line does not begin with it.
        args: the command line's arguments; None for those of the process.
    """

    def __init__(self, subcommand: str | None = None, args: ArgsType = None) -> None:
        set_parsing_settings(omegaconf_absolute_to_relative_paths=True)
        self.default_subcommand = subcommand
        self.told_num_classes: int | None = None
        super().__init__(
            LightningModule,
            SegmentationDataModule,
            trainer_defaults={"use_distributed_sampler": False},
            seed_everything_default=0,
            parser_kwargs={name: {"parser_mode": "omegaconf+"} for name in SUBCOMMANDS} | {"parser_mode": "omegaconf+"},
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
        parser.add_argument("--runs", type=str, default="runs", help="Folder of all runs: <runs>/<name>/<time>/.")
        parser.add_lightning_class_args(BestAndLast, "checkpoint")
        parser.add_lightning_class_args(ImagePanels, "panels")
        if subcommand == "fit":
            parser.link_arguments("data.num_classes", NUM_CLASSES, apply_on="instantiate")
            for name in ("classes", "preprocessing"):
                parser.link_arguments(
                    f"data.{name}", f"model.init_args.{name}", lambda value: value.to_dict(), apply_on="instantiate"
                )
        if subcommand in ("validate", "test"):
            parser.set_defaults({"verbose": False})
        if subcommand == "predict":
            parser.set_defaults({"data": {"class_path": "src.data.ImageFolder"}, "return_predictions": False})
            parser.add_argument("--output", type=str, required=True, help="Folder for the masks.")
            parser.add_argument("--overlay", type=bool, default=False, help="Also write the masks over the images.")
        return parser

    def parse_arguments(self, parser: LightningArgumentParser, args: ArgsType) -> None:
        """Parse the command line, the checkpoint's settings as one more config.

        Args:
            parser: the parser with all subcommands.
            args: arguments, or None for those of the process.
        """
        words = sys.argv[1:] if args is None else [str(word) for word in cast("list[str]", args)]
        words = arranged([self.default_subcommand, *words] if self.default_subcommand else words)
        configs = [word.partition("=")[2] for word in words if word.startswith("--config=")]
        subcommand = words[0] if words else None
        checkpoint = checkpoint_path(words, configs)
        if checkpoint and subcommand in ("validate", "test", "predict"):
            section = read_section(checkpoint)
            told = {"model": section["task"], "data": {"init_args": {"preprocessing": section["preprocessing"]}}}
            words.insert(1 + len(configs), f"--config={json.dumps(told)}")
        if subcommand in SUBCOMMANDS and configs:
            stem = Path(configs[0]).stem
            name = stem if subcommand == "fit" else f"{stem}-{subcommand}"
            self._subcommand_parsers[subcommand].set_defaults({"name": name})
        self.config = parser.parse_args(words)

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
        """The trainer, with the run's folder, loggers and callbacks unless the config brings its own.

        Args:
            **kwargs: arguments of the trainer that win over the config's.
        """
        config = self._get(self.config_init, "trainer")
        callbacks: list[Callback] = list(config.get("callbacks") or [])
        if config.get("enable_progress_bar") is not False:
            callbacks.append(RichProgressBar())
        if self.subcommand == "predict":
            self.save_config_callback = None
            output, overlay = self._get(self.config_init, "output"), self._get(self.config_init, "overlay")
            callbacks.append(PredictionWriter(output, overlay=overlay))
            kwargs["logger"] = config.get("logger") or False
        else:
            callbacks += [LearningCurves()] if self.subcommand == "fit" else [ClassTable()]
            folder = run_folder(self._get(self.config, "runs"), self._get(self.config, "name") or "run")
            if config.get("logger") in (None, True):
                loggers = (TensorBoardLogger, CSVLogger)
                kwargs["logger"] = [logger(folder.parent, name="", version=folder.name) for logger in loggers]
            kwargs["default_root_dir"] = config.get("default_root_dir") or str(folder)
        keys = self._parser(self.subcommand).callback_keys
        if self.subcommand != "fit" or config.get("enable_checkpointing") is False:
            keys.remove("checkpoint")
        if self.subcommand == "predict":
            keys.remove("panels")
        return super().instantiate_trainer(callbacks=callbacks, **kwargs)


def arranged(words: Sequence[str]) -> list[str]:
    """The command line with its subcommand first, then each ``--config=PATH``, found, then all else in its order.

    Args:
        words: the command line's arguments, from the subcommand on.

    Raises:
        FileNotFoundError: a config is neither where it was said nor in the folder ``configs``.
    """
    configs, others, rest = [], [], iter(words)
    for word in rest:
        key, equals, value = word.partition("=")
        if key in ("--config", "-c"):
            configs.append(f"--config={find_config(value if equals else next(rest, ''))}")
        else:
            others.append(word)
    return [*others[:1], *configs, *others[1:]] if others and others[0] in SUBCOMMANDS else [*configs, *others]


def find_config(name: str) -> Path:
    """A config as given or, where there is no such file, in the folder ``configs``.

    Args:
        name: path of a YAML file, or its name in ``configs``.

    Raises:
        FileNotFoundError: there is neither.
    """
    for path in (Path(name), CONFIGS / name):
        if path.is_file():
            return path
    known = ", ".join(sorted(path.relative_to(CONFIGS).as_posix() for path in CONFIGS.rglob("*.yaml")))
    raise FileNotFoundError(f"--config must be a YAML file or one of {CONFIGS}, got {name!r}; there are: {known}.")


def checkpoint_path(words: Sequence[str], configs: Sequence[str]) -> str | None:
    """The checkpoint that a command line names, in a flag or in a config, the last of them.

    Args:
        words: the command line's arguments.
        configs: paths of its configs.
    """

    def named() -> Iterator[str | None]:
        for config in configs:
            yield (yaml.safe_load(Path(config).read_text("utf-8")) or {}).get("ckpt_path")
        for word, following in zip(words, [*words[1:], ""], strict=True):
            key, equals, value = word.partition("=")
            if key == "--ckpt_path":
                yield value if equals else following

    return next((path for path in reversed(list(named())) if path), None)


def run_folder(runs: str, name: str) -> Path:
    """A folder ``<runs>/<name>/<time>`` that does not exist yet.

    Args:
        runs: folder of all runs.
        name: name of the run.
    """
    time = datetime.now().strftime("%Y-%m-%d_%H-%M-%S")
    candidates = (Path(runs) / name / f"{time}{suffix}" for suffix in ["", *(f"_{n}" for n in range(2, 1000))])
    return next(folder for folder in candidates if not folder.exists())


def users_error(error: BaseException | None) -> BaseException | None:
    """The error among ``error`` and its causes that this package raised about its input; None where there is none.

    Args:
        error: what ended a run.
    """
    while error is not None:
        raised_in = Path(traceback.extract_tb(error.__traceback__)[-1].filename)
        if isinstance(error, ValueError | FileNotFoundError) and PACKAGE in raised_in.parents:
            return error
        error = error.__cause__ or error.__context__
    return None


def quiet() -> None:
    """Leave out warnings that say nothing to a user."""
    for message in UNHELPFUL:
        warnings.filterwarnings("ignore", message=message)


def main(subcommand: str | None = None) -> None:
    """Run the command line; what is wrong with a user's input is said in a line, without a traceback.

    Args:
        subcommand: the subcommand, where the command line does not begin with it.
    """
    for entry in map(Path, sys.path):
        if (entry / "src" / "__init__.py").is_file() and (entry / "src").resolve() != PACKAGE.resolve():
            print(f"note: `src` is {PACKAGE}; the other one in {entry.resolve()} is not used", file=sys.stderr)
    quiet()
    try:
        SegmentationCLI(subcommand)
    except Exception as error:
        if (said := users_error(error)) is None:
            raise
        sys.exit(f"error: {said}")
