"""A model as a folder, here or on the Hugging Face Hub: its weights, what builds it again, and a card for people."""

import json
import math
import tempfile
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any, TypeVar

from torch import Tensor, nn

from src.classes import ClassList
from src.download.origins import located
from src.files import folder_written_beside
from src.models.compiled import plain_name
from src.models.model_card import LIBRARY, model_card
from src.models.rebuilding import built, take_weights
from src.models.section import FORMAT_VERSION, SECTION, checked
from src.models.settings import Settings, plain
from src.preprocessing import Preprocessing

WEIGHTS = "model.safetensors"
CONFIG = "config.json"
CARD = "README.md"

M = TypeVar("M", bound=nn.Module)


def save_folder(
    model: Any,
    folder: str | PathLike[str],
    classes: ClassList | None = None,
    preprocessing: Preprocessing | None = None,
    scores: Mapping[str, float] | None = None,
    licence: str | None = None,
    source: str | None = None,
) -> Path:
    """Writes a segmenter into a folder that appears whole or not at all.

    Args:
        model: the segmenter, with ``settings``.
        folder: the folder to write; one that this function wrote before is replaced.
        classes: names and colours of its outputs.
        preprocessing: how images become inputs.
        scores: what it reached, by name; ``iou/<class>`` is that of a class.
        licence: the licence of the weights, as the Hub names it, for example ``apache-2.0``.
        source: what the card tells to load; None for the folder's name.

    Returns:
        The folder.

    Raises:
        ValueError: the folder holds something else or cannot be written, the classes or the channels are not the
            model's, a score is no number, or a part does not tell how it was built.
    """
    folder = Path(folder)
    _check_fits(model, classes, preprocessing)
    _check_replaceable(folder)
    numbers = _numbers(scores or {})
    section = {
        "library_name": LIBRARY,
        "format_version": FORMAT_VERSION,
        "model": plain(model, "model"),
        "classes": None if classes is None else classes.to_dict(),
        "preprocessing": None if preprocessing is None else preprocessing.to_dict(),
        "scores": numbers,
    }
    card = model_card(model, source or folder.absolute().name, classes, preprocessing, numbers, licence)
    try:
        with folder_written_beside(folder) as beside:
            write_tensors({plain_name(name): value for name, value in model.state_dict().items()}, beside / WEIGHTS)
            (beside / CONFIG).write_text(json.dumps(section, indent=2, ensure_ascii=False) + "\n", "utf-8")
            (beside / CARD).write_text(card, "utf-8")
    except OSError as error:
        raise ValueError(
            f"{folder} cannot be written ({error.strerror or error}); make room, or choose another."
        ) from error
    return folder


def write_tensors(tensors: Mapping[str, Tensor], path: Path) -> None:
    """Writes a ``.safetensors`` file.

    Args:
        tensors: tensors by name, on any device.
        path: the file.

    Raises:
        OSError: it cannot be written.
    """
    from safetensors import SafetensorError
    from safetensors.torch import save_file

    try:
        save_file(own_memory(tensors), path, {"format": "pt"})
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
    except (OSError, ValueError) as error:
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


def load_folder(kind: type[M], source: str | PathLike[str]) -> M:
    """The model in a folder, in eval mode, on the CPU, each weight in the type that it was saved in.

    Args:
        kind: the class of which it must be.
        source: the folder, or ``hf:owner/name[@revision]``.

    Raises:
        FileNotFoundError: there is no such folder.
        ImportError: the model has a part from a package that is not installed.
        ValueError: it cannot be fetched, a file in it is missing or damaged, or it is of another program or release.
    """
    folder = located(source)
    if folder.is_file():
        raise ValueError(
            f"source must be a folder of Segmenter.save_pretrained, got the file {folder}; "
            f"src.inference.load_predictor reads checkpoints, src.weights.load_weights weights alone."
        )
    section, tensors = read_folder(folder)
    settings: Settings = section["model"]
    model = built(settings, kind, folder)
    for name, value in [*model.named_parameters(), *model.named_buffers()]:
        if name in tensors and value.is_floating_point() and tensors[name].is_floating_point():
            value.data = value.data.to(tensors[name].dtype)
    take_weights(model, tensors, folder)
    return model.eval()


def push_folder(
    model: Any,
    repo_id: str,
    classes: ClassList | None = None,
    preprocessing: Preprocessing | None = None,
    scores: Mapping[str, float] | None = None,
    licence: str | None = None,
    token: str | None = None,
    private: bool | None = None,
    commit_message: str = "Upload model",
) -> str:
    """Writes a segmenter into a folder and uploads it to the Hugging Face Hub.

    Args:
        model: the segmenter, with ``settings``.
        repo_id: ``owner/name``; the repository is made where there is none.
        classes: names and colours of its outputs.
        preprocessing: how images become inputs.
        scores: what it reached, by name; ``iou/<class>`` is that of a class.
        licence: the licence of the weights, as the Hub names it.
        token: a token that may write; None for the one of ``hf auth login``.
        private: whether a new repository is private; None for the owner's default.
        commit_message: what the commit is called.

    Returns:
        The address of the commit.

    Raises:
        ValueError: the Hub does not take it, or the model cannot be saved, see ``save_folder``.
    """
    from huggingface_hub import HfApi

    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "model"
        save_folder(model, folder, classes, preprocessing, scores, licence, f"hf:{repo_id}")
        try:
            api = HfApi(token=token)
            api.create_repo(repo_id, private=private, exist_ok=True)
            commit = api.upload_folder(repo_id=repo_id, folder_path=folder, commit_message=commit_message)
        except (OSError, ValueError) as error:
            raise ValueError(
                f"{repo_id} cannot be written on the Hub ({(str(error).splitlines() or [type(error).__name__])[0]}); "
                f"check the name `owner/name`, the connection, and that the token may write (`hf auth login`)."
            ) from error
    return str(commit.commit_url)


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
        except (OSError, ValueError, TypeError, LookupError):
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
