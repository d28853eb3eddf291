"""A model as a folder, here or on the Hugging Face Hub: its weights, what builds it again, and a card for people."""

import json
import math
import tempfile
import threading
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any, Self

from torch import Tensor

from src.classes import ClassList
from src.download.origins import located
from src.files import folder_written_beside, put_back, remove_stale_parts
from src.models.compiled import plain_name
from src.models.model_card import model_card
from src.models.rebuilding import built, no_larger_than, take_weights
from src.models.section import FORMAT_VERSION, LIBRARY, SECTION, checked
from src.models.settings import Settings, plain
from src.preprocessing import Preprocessing

WEIGHTS = "model.safetensors"
CONFIG = "config.json"
CARD = "README.md"

_ONE_SAVE = threading.Lock()
"""Threads that save into one folder do so one after another."""


class Pretrained:
    """Mixin of a segmenter that can be saved as a folder, read from one, and shared."""

    def save_pretrained(
        self,
        folder: str | PathLike[str],
        classes: ClassList | None = None,
        preprocessing: Preprocessing | None = None,
        scores: Mapping[str, float] | None = None,
        licence: str | None = None,
    ) -> Path:
        """Writes weights, settings and a model card into a folder, which appears whole or not at all.

        Args:
            folder: the folder to write; one that was written so before is replaced.
            classes: names and colours of the outputs; ``load_predictor`` wants them.
            preprocessing: how images become inputs; ``load_predictor`` wants it.
            scores: what the model reached, by name, for the card; ``iou/<class>`` is that of a class.
            licence: the licence of the weights, as the Hub names it, for example ``apache-2.0``.

        Returns:
            The folder.

        Raises:
            ValueError: the folder holds something else or cannot be written, what is given does not fit the model, a
                score is no number, or a part does not tell how it was built.
        """
        folder = Path(folder)
        return _saved(self, folder, folder.name, classes, preprocessing, scores, licence)

    @classmethod
    def from_pretrained(cls, source: str | PathLike[str]) -> Self:
        """The model that ``save_pretrained`` or ``push_to_hub`` wrote, in eval mode, on the CPU; no code in it is run.

        Each weight has the type that it was saved in.

        Args:
            source: the folder, or ``hf:owner/name[@revision]``.

        Raises:
            FileNotFoundError: there is no such folder.
            ImportError: the model has a part from a package that is not installed.
            ValueError: it cannot be fetched, is damaged, or is of another program or of a newer release.
        """
        put_back(Path(source))
        folder = located(source)
        if folder.is_file():
            raise ValueError(
                f"source must be a folder of Segmenter.save_pretrained, got the file {folder}; "
                f"src.inference.load_predictor reads checkpoints, src.weights.load_weights weights alone."
            )
        section, tensors = read_folder(folder)
        settings: Settings = section["model"]
        with no_larger_than(tensors):
            model: Any = built(settings, cls, folder)
        for name, value in [*model.named_parameters(), *model.named_buffers()]:
            if name in tensors and value.is_floating_point() and tensors[name].is_floating_point():
                value.data = value.data.to(tensors[name].dtype)
        take_weights(model, tensors, folder)
        made: Self = model.eval()
        return made

    def push_to_hub(
        self,
        repo_id: str,
        classes: ClassList | None = None,
        preprocessing: Preprocessing | None = None,
        scores: Mapping[str, float] | None = None,
        licence: str | None = None,
        *,
        token: str | None = None,
        private: bool | None = None,
        commit_message: str = "Upload model",
    ) -> str:
        """Uploads what ``save_pretrained`` writes to the Hugging Face Hub.

        Args:
            repo_id: ``owner/name``; the repository is made where there is none.
            classes: see ``save_pretrained``, as the next three.
            preprocessing: how images become inputs.
            scores: what the model reached, by name.
            licence: the licence of the weights.
            token: a token that may write; None for the one of ``hf auth login``.
            private: whether a new repository is private; None for the owner's default.
            commit_message: what the commit is called.

        Returns:
            The address of the commit.

        Raises:
            ValueError: the Hub does not take it, or the model cannot be saved.
        """
        from huggingface_hub import HfApi

        with tempfile.TemporaryDirectory() as place:
            folder = Path(place) / "model"
            _saved(self, folder, f"hf:{repo_id}", classes, preprocessing, scores, licence)
            try:
                api = HfApi(token=token)
                api.create_repo(repo_id, private=private, exist_ok=True)
                commit = api.upload_folder(repo_id=repo_id, folder_path=folder, commit_message=commit_message)
            except (OSError, ValueError) as error:
                raise ValueError(
                    f"{repo_id} cannot be written on the Hub "
                    f"({(str(error).splitlines() or [type(error).__name__])[0]}); check the name `owner/name`, the "
                    f"connection, and that the token may write (`hf auth login`)."
                ) from error
        return str(commit.commit_url)


def write_tensors(tensors: Mapping[str, Tensor], path: Path, metadata: Mapping[str, str] | None = None) -> None:
    """Writes a ``.safetensors`` file.

    Args:
        tensors: tensors by name, on any device.
        path: the file.
        metadata: what stands beside them.

    Raises:
        OSError: it cannot be written.
    """
    from safetensors import SafetensorError
    from safetensors.torch import save_file

    try:
        save_file(own_memory(tensors), path, {"format": "pt", **(metadata or {})})
    except SafetensorError as error:  # it says nothing else of a disk that is full
        raise OSError(str(error)) from error


def own_memory(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Tensors on the CPU, each alone in its memory, so that a file holds no more than them.

    Args:
        tensors: tensors by name, on any device.
    """
    seen: set[int] = set()
    alone: dict[str, Tensor] = {}
    for name, value in tensors.items():
        value = value.detach().cpu().contiguous()
        whole = value.untyped_storage().nbytes() == value.numel() * value.element_size()
        if not whole or value.untyped_storage().data_ptr() in seen:
            value = value.clone()
        seen.add(value.untyped_storage().data_ptr())
        alone[name] = value
    return alone


def read_folder(folder: str | PathLike[str]) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """What a folder of ``save_folder`` says of its model, and the weights.

    Args:
        folder: the folder.

    Raises:
        ValueError: a file is missing or damaged, or it is of another program or of a newer release.
    """
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    folder = Path(folder)
    config, weights = folder / CONFIG, folder / WEIGHTS
    try:
        section = json.loads(config.read_text("utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise ValueError(f"{config} cannot be read ({error}); give a folder of Segmenter.save_pretrained.") from error
    if not isinstance(section, dict) or section.get("library_name") != LIBRARY:
        raise ValueError(
            f"{folder} must be a folder of Segmenter.save_pretrained, got one whose {CONFIG} is of another program; "
            f"src.weights.load_weights reads the layouts of others."
        )
    try:
        tensors = load_file(weights)
    except (OSError, SafetensorError) as error:
        raise ValueError(
            f"{weights} is missing or damaged ({str(error).splitlines()[0]}); copy the folder again."
        ) from error
    return checked({SECTION: section, "state_dict": tensors}, folder, parts=("model",))[SECTION], tensors


def _saved(
    model: Any,
    folder: Path,
    source: str,
    classes: ClassList | None,
    preprocessing: Preprocessing | None,
    scores: Mapping[str, float] | None,
    licence: str | None,
) -> Path:
    """Writes the folder, whose card tells to load ``source``."""
    _check_fits(model, classes, preprocessing)
    numbers = _numbers(scores or {})
    section = {
        "library_name": LIBRARY,
        "format_version": FORMAT_VERSION,
        "model": plain(model, "model"),
        "classes": None if classes is None else classes.to_dict(),
        "preprocessing": None if preprocessing is None else preprocessing.to_dict(),
        "scores": numbers,
    }
    card = model_card(model, source, classes, preprocessing, numbers, licence)
    try:
        with _ONE_SAVE:
            place = folder.resolve()  # a link stays, and what it leads to is replaced
            remove_stale_parts(place.parent)
            put_back(place)
            _check_replaceable(folder)
            with folder_written_beside(place) as beside:
                write_tensors({plain_name(name): value for name, value in model.state_dict().items()}, beside / WEIGHTS)
                (beside / CONFIG).write_text(json.dumps(section, indent=2, ensure_ascii=False) + "\n", "utf-8")
                (beside / CARD).write_text(card, "utf-8")
    except OSError as error:
        raise ValueError(
            f"{folder} cannot be written ({error.strerror or error}); make room, or choose another."
        ) from error
    return folder


def _check_fits(model: Any, classes: ClassList | None, preprocessing: Preprocessing | None) -> None:
    if classes is not None and len(classes) != model.num_classes:
        raise ValueError(
            f"classes must name each of the model's {model.num_classes} outputs, got {len(classes)} names; give the "
            f"list that it was trained with."
        )
    channels = getattr(model.encoder, "in_channels", None)
    if preprocessing is not None and channels is not None and preprocessing.channels != channels:
        raise ValueError(
            f"preprocessing must have a mean for each of the model's {channels} channels, got "
            f"{preprocessing.channels}; give the one that it was trained with."
        )


def _check_replaceable(folder: Path) -> None:
    if folder.resolve() == Path.cwd():
        raise ValueError(
            f"folder must be another than the one in which this program runs, for it is replaced as a whole, got "
            f"{folder}; choose one in it."
        )
    if not folder.exists():
        return
    if not folder.is_dir():
        raise ValueError(f"folder must be a folder to write, got {folder}, which is a file; choose another.")
    found = {path.name for path in folder.iterdir()}
    others = sorted(found - {WEIGHTS, CONFIG, CARD})
    if not others and found:
        try:
            config = json.loads((folder / CONFIG).read_text("utf-8"))
            others = [] if config["library_name"] == LIBRARY else [CONFIG]
        except (OSError, ValueError, TypeError, LookupError, RecursionError):
            others = sorted(found)
    if others:
        raise ValueError(
            f"folder must be new, empty or of an earlier save_pretrained, got {folder}, which holds {others[0]}; "
            f"choose another, or move that away."
        )


def _numbers(scores: Mapping[str, float]) -> dict[str, float | None]:
    numbers: dict[str, float | None] = {}
    for name, value in scores.items():
        try:
            number = float(value)
        except (TypeError, ValueError, RuntimeError) as error:
            raise ValueError(f"scores must be numbers by name, got {value!r} for {name}; leave it out.") from error
        numbers[str(name)] = number if math.isfinite(number) else None
    return numbers
