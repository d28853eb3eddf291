"""Lightning's command line for this package's tasks and data: parser, links, defaults."""

import json
import sys
from typing import Any, cast

from jsonargparse import set_parsing_settings
from lightning.pytorch import Trainer
from lightning.pytorch.callbacks import Callback, ProgressBar, RichProgressBar
from lightning.pytorch.cli import ArgsType, LightningArgumentParser, LightningCLI
from lightning.pytorch.loggers import CSVLogger, TensorBoardLogger
from lightning.pytorch.plugins import CheckpointIO
from torch import nn

from src.callbacks import BestAndLast, ClassTable, ImagePanels, LearningCurves, PredictionWriter, StepSeed
from src.classes import ClassList
from src.cli.command_line import SUBCOMMANDS, arranged, checkpoint_path, config_files
from src.cli.run_folder import make_run_folder
from src.cli.whole_checkpoints import WholeCheckpoints
from src.data.datamodule import SegmentationDataModule
from src.inference.checkpoint import read_section
from src.models.settings import build_recorded
from src.preprocessing import Preprocessing
from src.tasks import SemanticSegmentation

SCORING = ("validate", "test", "predict")
"""The subcommands that need a checkpoint."""

NUM_CLASSES = "model.init_args.model.init_args.num_classes"


class SegmentationCLI(LightningCLI):
    """``fit``, ``validate``, ``test`` and ``predict`` for the task and the data module that a config names.

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
            SemanticSegmentation,
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
                parser.link_arguments(f"data.{name}", f"model.init_args.{name}", _as_dict, apply_on="instantiate")
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

        Raises:
            FileNotFoundError: a config or the checkpoint does not exist.
            ValueError: a config or the checkpoint cannot be read, or there is no checkpoint where one is needed.
        """
        words = sys.argv[1:] if args is None else [str(word) for word in cast("list[str]", args)]
        words = arranged([self.default_subcommand, *words] if self.default_subcommand else words)
        subcommand, configs = words[0] if words else "", config_files(words)
        checkpoint = checkpoint_path(words)
        section = read_section(checkpoint) if checkpoint else None
        if section and subcommand in SCORING:
            told = {"model": section["task"], "data": {"init_args": {"preprocessing": section["preprocessing"]}}}
            words.insert(1 + len(configs), f"--config={json.dumps(told, ensure_ascii=False)}")
        elif words == ["fit"]:
            raise ValueError("--config must be given to fit, for example `--config sample.yaml`.")
        elif subcommand in SCORING and not {"-h", "--help"} & set(words):
            raise ValueError(f"--ckpt_path must be given to {subcommand}: a checkpoint that `python -m src.fit` wrote.")
        if subcommand in SUBCOMMANDS and configs:
            name = configs[0].stem if subcommand == "fit" else f"{configs[0].stem}-{subcommand}"
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
        callbacks = [*_listed(config.get("callbacks")), *self._own_callbacks()]
        shows_progress = any(isinstance(callback, ProgressBar) for callback in callbacks)
        if config.get("enable_progress_bar") is not False and not shows_progress:
            callbacks.append(RichProgressBar())
        keys = self._parser(self.subcommand).callback_keys
        if self.subcommand != "fit" or config.get("enable_checkpointing") is False:
            keys.remove("checkpoint")
        if self.subcommand == "predict":
            keys.remove("panels")
            self.save_config_callback = None
            kwargs["logger"] = config.get("logger") or False
        elif not config.get("fast_dev_run"):
            folder = make_run_folder(self._get(self.config, "runs"), self._get(self.config, "name") or "run")
            kwargs["default_root_dir"] = config.get("default_root_dir") or str(folder)
            if config.get("logger") in (None, True):
                loggers = (TensorBoardLogger, CSVLogger)
                kwargs["logger"] = [logger(folder.parent, name="", version=folder.name) for logger in loggers]
        plugins = _listed(config.get("plugins"))
        if not any(isinstance(plugin, CheckpointIO) for plugin in plugins):
            plugins.append(WholeCheckpoints())
        return super().instantiate_trainer(callbacks=callbacks, plugins=plugins, **kwargs)

    def _own_callbacks(self) -> list[Callback]:
        if self.subcommand == "predict":
            return [PredictionWriter(self._get(self.config, "output"), self._get(self.config, "overlay"))]
        if self.subcommand == "fit":
            return [StepSeed(self._get(self.config, "seed_everything")), LearningCurves()]
        return [ClassTable()]


def _as_dict(value: ClassList | Preprocessing) -> dict[str, Any]:
    return value.to_dict()


def _listed(value: Any) -> list[Any]:
    if value is None:
        return []
    return list(value) if isinstance(value, list) else [value]
