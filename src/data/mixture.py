"""Several data sets in one run, each with its own names for the classes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from src.classes import ClassList
from src.data.batch import IGNORE_INDEX
from src.data.datamodule import SegmentationDataModule, Split
from src.data.pairs import Pair
from src.data.samplers import IterationSampler, MixtureSampler
from src.data.source import Source
from src.wording import nearest

OTHERS = "*"
"""Stands for all classes of a part that are neither renamed nor among the classes of the mixture."""


@dataclass
class Part:
    """One data set of a mixture.

    Args:
        data: the data set. Its files, its classes, its readers and its choice of validation images count; its batch
            sizes, crops, preprocessing, augmentation and workers do not.
        weight: its share of the training samples, as a number that is compared with the other parts'; above 0.
        renamed: the class of the mixture for each class of the data set that is called otherwise, null where it is to
            be ignored; ``"*"`` stands for all that are not named and not in the mixture.
        validate: whether its validation images are scored.
    """

    data: SegmentationDataModule
    weight: float | None = None
    renamed: dict[str, str | None] = field(default_factory=dict)
    validate: bool = True


class Mixture(SegmentationDataModule):
    """Several data sets with one list of classes.

    A class of a part is the class of the same name, synonyms included, unless the part renames it. Without weights
    every image comes once an epoch. With weights each part has its share of every epoch, and all its images come
    before one comes again. Validation scores the images of all parts together; prediction takes those that the parts
    predict. Names of images, in panels and predicted masks, begin with the name of their part.

    Args:
        classes: text file with the classes of the mixture, one a line: ``name`` or ``id name``, optionally with
            `` r,g,b`` at its end and with ``; synonym``; predicted masks hold these ids.
        parts: the data sets, by a name of your choice.
        **common: see ``SegmentationDataModule``.

    Raises:
        FileNotFoundError: there is no file of classes.
        ValueError: an argument is out of range, or a class of a part has no place among the classes.

    Example, in a config::

        data:
          class_path: src.data.Mixture
          init_args:
            classes: classes.txt
            parts:
              town:
                data: {class_path: src.data.MaskFolder, init_args: {images: a/, masks: b/, classes: town.txt}}
                weight: 2.0
                renamed: {car: vehicle, truck: vehicle, sky: null}
              rooms:
                data: {class_path: src.data.ADE20K, init_args: {root: ADEChallengeData2016}}
                weight: 1.0
                renamed: {"*": null}
    """

    def __init__(self, classes: str, parts: dict[str, Part], **common: Any) -> None:
        super().__init__(
            classes=ClassList.from_file(classes), ignored_ids=None, reduce_zero_label=False, mapping=None, **common
        )
        self.parts = parts
        _check(parts)
        self._sources_of = {name: self._translated(name, part) for name, part in parts.items()}

    def prepare_data(self) -> None:
        """Lets every part fetch or make its files."""
        for part in self.parts.values():
            part.data.prepare_data()

    def sources(self) -> Sequence[Source]:
        """The parts' own readers, with masks in the classes of the mixture."""
        return [source for sources in self._sources_of.values() for source in sources]

    def pairs(self, split: Split) -> Sequence[Pair]:
        """The files of all parts, part by part.

        Args:
            split: ``train``, ``val`` or ``predict``.

        Raises:
            FileNotFoundError: a part's files are missing.
            ValueError: a part's files do not belong together.
        """
        found: list[Pair] = []
        first = 0
        for name, part in self.parts.items():
            if split != "val" or part.validate:
                found += [
                    replace(pair, name=f"{name}/{pair.name}", source=first + pair.source)
                    for pair in part.data.pairs(split)
                ]
            first += len(self._sources_of[name])
        return found

    def searched_folders(self) -> set[Path]:
        """Folders in which the parts look for images to predict."""
        return set().union(*(part.data.searched_folders() for part in self.parts.values()))

    def training_sampler(self, pairs: Sequence[Pair], num_samples: int, rank: int, world_size: int) -> IterationSampler:
        """Every image once an epoch, or the parts by their weights.

        Args:
            pairs: the training images.
            num_samples: how many samples one pass gives on this process.
            rank: number of this process.
            world_size: number of processes.

        Raises:
            ValueError: a part has no training images, or so small a weight that it would never come.
        """
        weights = [part.weight for part in self.parts.values() if part.weight is not None]
        if not weights:
            return super().training_sampler(pairs, num_samples, rank, world_size)
        part_of = [place for place, sources in enumerate(self._sources_of.values()) for _ in sources]
        sizes = np.bincount([part_of[pair.source] for pair in pairs], minlength=len(self.parts)).tolist()
        if 0 in sizes:
            name = list(self.parts)[sizes.index(0)]
            raise ValueError(f"data.parts.{name}.data must have training images, got none; leave the part out.")
        sampler = MixtureSampler(sizes, weights, num_samples, self.seed, rank, world_size)
        for name, count in zip(self.parts, sampler.counts, strict=True):
            if count == 0:
                raise ValueError(
                    f"data.parts.{name}.weight must give the part a share of the {len(pairs)} samples of an epoch, got "
                    f"{self.parts[name].weight}, which rounds to none; raise it."
                )
        return sampler

    def _translated(self, name: str, part: Part) -> list[Source]:
        """How a part's files are read, with masks in the classes of the mixture."""
        targets = _targets(part.data.classes, self.classes, name, part.renamed)
        translated = []
        for source in part.data.sources():
            if source.encoder is None:
                raise ValueError(f"data.parts.{name}.data must have masks, got a data set without; leave it out.")
            limit = source.max_image_pixels or self.max_image_pixels
            key = source.encoder.key.replace("data", f"data.parts.{name}.data", 1)
            encoder = source.encoder.translated(targets, key)
            translated.append(replace(source, encoder=encoder, max_image_pixels=limit))
        return translated


def _check(parts: Mapping[str, Part]) -> None:
    if not parts:
        raise ValueError("data.parts must hold at least one data set, got none; give each a name and its `data`.")
    for name, part in parts.items():
        if name in ("", ".", "..") or Path(name).name != name or "\\" in name:
            raise ValueError(f"data.parts must have names that can name a folder, got {name!r}; rename the part.")
        if part.weight is not None and not 0 < part.weight < float("inf"):
            raise ValueError(f"data.parts.{name}.weight must be above 0, got {part.weight}; or leave the part out.")
    weighted = [name for name, part in parts.items() if part.weight is not None]
    if 0 < len(weighted) < len(parts):
        raise ValueError(
            f"data.parts must all have a weight or none, got one for {', '.join(weighted)} alone; add or remove some."
        )
    if not any(part.validate for part in parts.values()):
        raise ValueError("data.parts must hold one with `validate: true`, got none; something must be scored.")


def _targets(own: ClassList, classes: ClassList, name: str, renamed: Mapping[str, str | None]) -> list[int]:
    """For each class of a part its index in the mixture, or 255."""
    key = f"data.parts.{name}.renamed"
    places = {word: index for index, words in enumerate(classes.synonyms) for word in words}
    places |= {word: index for index, word in enumerate(classes.names)}
    for old, new in renamed.items():
        if old != OTHERS and old not in own.names:
            raise ValueError(f"{key} must name classes of the part, got {old!r}; {nearest(old, own.names)}.")
        if new is not None and new not in places:
            raise ValueError(f"{key} must lead to classes of data.classes, got {old}: {new}; {nearest(new, places)}.")
    targets = []
    for word, synonyms in zip(own.names, own.synonyms, strict=True):
        known = next((each for each in (word, *synonyms) if each in places), None)
        if word not in renamed and known is None and OTHERS not in renamed:
            raise ValueError(
                f"{key} must say what becomes of every class that is not in data.classes, got nothing for {word!r} "
                f"({nearest(word, places)}); add `{word}: NAME`, or `{word}: null` to ignore it."
            )
        target = renamed[word] if word in renamed else known or renamed[OTHERS]
        targets.append(IGNORE_INDEX if target is None else places[target])
    return targets
