"""The folder of a predict job: which masks belong there, which are there already, and what made them."""

import hashlib
import json
import os
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any

import torch
from filelock import FileLock
from torch import Tensor

from src.classes import ClassList
from src.files import remove_stale_parts, written_beside
from src.models.compiled import plain_name

RECORD = ".predict.json"
"""What made the masks of a folder, and of which image each is."""

CLASSES = "classes.txt"
"""Which id is which class; reads as ``data.classes``."""

FAILED = "failed.txt"
"""Images without a mask, and why."""

_REMEDY = "give another folder, or --overwrite true to redo the masks"


@dataclass(frozen=True)
class PredictJob:
    """Masks to write into a folder. Two jobs are the same where their ``settings`` are.

    Args:
        output: the folder.
        images: the file of each image, by the image's name.
        settings: what the masks follow from, in plain types; ``weights`` is a fingerprint.
        checkpoint: what a person calls the model.
        classes: names, ids and colours of the classes.
        overlay: whether each image with its mask over it is written too.
    """

    output: Path
    images: Mapping[str, Path]
    settings: Mapping[str, Any]
    checkpoint: str
    classes: ClassList
    overlay: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "settings", json.loads(json.dumps(self.settings)))

    def prepare(self, overwrite: bool) -> tuple[dict[str, str], set[str]]:
        """Makes the folder ready; nothing in it is touched where the job is refused.

        Args:
            overwrite: whether to remove masks and overlays of these images that are there already.

        Returns:
            The name of each image's mask, without ``.png``, and the images that need no more work: their masks were
            written whole, by this job, and are not older than the image.

        Raises:
            ValueError: the folder holds masks of another job or files of others, leads out of itself, or cannot be
                written.
        """
        with _one_at_a_time(self.output):
            return self._prepare(overwrite)

    def _prepare(self, overwrite: bool) -> tuple[dict[str, str], set[str]]:
        record = self._read_record()
        known = record["images"]
        places = {name: str(image.resolve()) for name, image in self.images.items()}
        masks = mask_names(list(places), _kept_names(places, known))
        present = {
            name: [path for file in written_files(mask) if os.path.lexists(path := self.output / file)]
            for name, mask in masks.items()
        }
        foreign = [path for name in masks if known.get(masks[name]) != places[name] for path in present[name]]
        if not overwrite and record["settings"] not in (None, self.settings):
            raise ValueError(self._other_job(record))
        self._check_links(masks)
        self._check_present(foreign, set(places.values()), record["settings"], overwrite)
        done = set() if overwrite else {name for name, mask in masks.items() if self._is_done(name, mask)}
        try:
            self.output.mkdir(parents=True, exist_ok=True)
            for folder in {(self.output / mask).parent for mask in masks.values()}:
                remove_stale_parts(folder)
            for path in [path for paths in present.values() for path in paths] if overwrite else ():
                path.unlink()
            others = known if record["settings"] == self.settings else {}
            images = others | {masks[name]: place for name, place in places.items()}
            record = {"checkpoint": self.checkpoint, "settings": self.settings, "images": images}
            self._write(RECORD, json.dumps(record, indent=1))
            self._write(CLASSES, classes_text(self.classes))
        except OSError as error:
            raise ValueError(f"output must be a folder to write to, got {self.output} ({error}).") from error
        return masks, done

    def _read_record(self) -> dict[str, Any]:
        try:
            text = (self.output / RECORD).read_text("utf-8")
            record = json.loads(text)
            images = {str(mask): str(image) for mask, image in record["images"].items()}
            return {"checkpoint": str(record["checkpoint"]), "settings": dict(record["settings"]), "images": images}
        except (FileNotFoundError, NotADirectoryError):
            return {"checkpoint": None, "settings": None, "images": {}}
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise ValueError(
                f"output must hold a {RECORD} that a predict job wrote, got {self.output / RECORD}, which cannot be "
                f"read ({error!r}); give another folder, or remove the file and give --overwrite true."
            ) from error

    def _check_links(self, masks: Mapping[str, str]) -> None:
        inside = self.output.resolve()
        for folder in {(self.output / mask).parent for mask in masks.values()}:
            if not folder.resolve().is_relative_to(inside):
                raise ValueError(
                    f"output must not lead out of itself, got {folder}, which is a link to {folder.resolve()}; "
                    f"remove the link, or give another folder."
                )

    def _check_present(self, foreign: list[Path], images: set[str], settings: Any, overwrite: bool) -> None:
        if replaced := next((path for path in foreign if str(path.resolve()) in images), None):
            raise ValueError(f"output must not hold the images, got {self.output}, where a mask would be {replaced}.")
        classes = self.output / CLASSES
        same = classes.is_file() and classes.read_bytes() == classes_text(self.classes).encode()
        others = [name for name in (CLASSES, FAILED) if os.path.lexists(self.output / name)]
        if same:
            others.remove(CLASSES)
        if others and settings is None:
            raise ValueError(
                f"output must be a folder where only predict jobs have written, got {self.output} with a {others[0]} "
                f"of another origin; give another folder, or remove the file."
            )
        if foreign and not overwrite:
            raise ValueError(
                f"output must be a folder where only this job has written, got {self.output} with {foreign[0]} of "
                f"another origin{f' and {len(foreign) - 1} more' if foreign[1:] else ''}; {_REMEDY}."
            )

    def _other_job(self, record: Mapping[str, Any]) -> str:
        there, here = record["settings"], self.settings
        differing = [key for key in here if there.get(key) != here[key]]
        return (
            f"output must be a folder for masks of one model, got {self.output} with masks of {record['checkpoint']} "
            f"({str(there.get('weights'))[:8]}) for a job of {self.checkpoint} ({here['weights'][:8]}), another in "
            f"{', '.join(differing)}; {_REMEDY}."
        )

    def _is_done(self, name: str, mask: str) -> bool:
        files = written_files(mask)[: 1 + self.overlay]
        try:
            changed = self.images[name].stat().st_mtime
            return all(_is_whole(path) and path.stat().st_mtime >= changed for path in map(self.output.joinpath, files))
        except OSError:
            return False

    def _write(self, name: str, text: str) -> None:
        with written_beside(self.output / name) as beside:
            beside.write_text(text, "utf-8")


def _one_at_a_time(output: Path) -> FileLock:
    """Keeps other jobs of this machine that would write into a folder waiting; the lock leaves nothing in it."""
    user = os.getuid() if os.name == "posix" else 0
    number = hashlib.sha256(os.fsencode(output.absolute())).hexdigest()[:16]
    return FileLock(Path(tempfile.gettempdir(), f"swin-upernet-{user}-{number}.lock"))


def _is_whole(path: Path) -> bool:
    """Whether a PNG or JPEG file has the end that it was written with."""
    with path.open("rb") as file:
        file.seek(-min(12, path.stat().st_size), os.SEEK_END)
        return file.read().endswith((b"IEND\xaeB`\x82", b"\xff\xd9"))


def written_files(mask: str) -> tuple[str, str]:
    """Paths inside the output folder of a mask and of the image with the mask over it.

    Args:
        mask: name of the mask without ``.png``.
    """
    return f"{mask}.png", f"{mask}_overlay.jpg"


def mask_names(names: Sequence[str], known: Mapping[str, str] | None = None) -> dict[str, str]:
    """Names of masks, without ``.png``: the images' without suffix, or with it where two would be the same.

    Args:
        names: relative paths of the images, with ``/`` and suffix.
        known: names that some images have already and keep.

    Raises:
        ValueError: a path climbs out of its folder.
    """
    for name in names:
        for path in (PurePosixPath(name), PureWindowsPath(name)):
            if path.anchor or ".." in path.parts or not path.name:
                raise ValueError(
                    f"names of images must lie inside their folder, got {name!r}; move or rename the file."
                )
    folders = {str(folder) for name in names for folder in PurePosixPath(name).parents}
    chosen = {name: _stem(name) for name in names} | dict(known or {})
    while True:
        counts = Counter(chosen.values())
        clashing = [
            name
            for name, mask in chosen.items()
            if (counts[mask] > 1 or f"{mask}.png" in folders) and mask != name and name not in (known or {})
        ]
        if not clashing:
            return chosen
        chosen |= {name: name for name in clashing}


def _kept_names(places: Mapping[str, str], known: Mapping[str, str]) -> dict[str, str]:
    """The masks that images had before others came whose names differ in the suffix only."""
    return {name: mask for name, place in places.items() for mask in (name, _stem(name)) if known.get(mask) == place}


def classes_text(classes: ClassList) -> str:
    """A class list as the text file that ``data.classes`` reads: id, names and colour of a class in each line.

    Args:
        classes: names, ids and colours of the classes.
    """
    rows = zip(classes.ids, classes.names, classes.synonyms, classes.palette, strict=True)
    return "".join(
        f"{class_id} {'; '.join([name, *synonyms])} {','.join(map(str, colour))}\n"
        for class_id, name, synonyms, colour in rows
    )


def fingerprint(weights: Mapping[str, Tensor]) -> str:
    """A number that two sets of weights share only if they are the same, wherever they are stored.

    Args:
        weights: a model's ``state_dict``.
    """
    digest = hashlib.sha256()
    for name, value in sorted((plain_name(name), value) for name, value in weights.items()):
        digest.update(f"{name} {value.dtype} {tuple(value.shape)}\n".encode())
        digest.update(value.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().data)
    return digest.hexdigest()


def _stem(name: str) -> str:
    return str(PurePosixPath(name).with_suffix(""))
