"""What a label means: names, colours and the values that stand for the classes in mask files."""

import colorsys
import json
import re
import unicodedata
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Colour = tuple[int, int, int]
"""Red, green and blue, each 0..255."""

LARGEST_ID = 2**24 - 1
"""The largest value in a mask file that can stand for a class."""

ADE20K_FILE = Path(__file__).with_name("ade20k_classes.txt")

_LINE = re.compile(
    r"^(?:(?P<id>\d+)(?:\s*[:,]\s*|\s+)(?=\S))?"
    r"(?P<names>.*?)"
    r"(?:(?:\s*,\s*|\s+)(?P<colour>\d{1,3}(?:\s*,\s*\d{1,3}\s*,\s*|\s+\d{1,3}\s+)\d{1,3}))?$"
)


@dataclass(frozen=True)
class ClassList:
    """Names, colours and stored values of the classes of a data set, in the order of a model's outputs.

    Args:
        names: one unique name for each class, kept in Unicode's form NFC.
        palette: one colour (red, green, blue), each 0..255, for each class. Two classes may share a colour.
        ids: the value that stands for each class in a mask file; ``0..K-1`` where left out.
        synonyms: further names of each class; none where left out.

    Raises:
        ValueError: lengths differ, a name or an id occurs twice, or a number is out of range.
    """

    names: tuple[str, ...]
    palette: tuple[Colour, ...]
    ids: tuple[int, ...] = ()
    synonyms: tuple[tuple[str, ...], ...] = ()

    def __post_init__(self) -> None:
        set_field = object.__setattr__
        set_field(self, "names", tuple(unicodedata.normalize("NFC", name) for name in self.names))
        set_field(self, "palette", tuple(tuple(colour) for colour in self.palette))
        set_field(self, "ids", tuple(self.ids) or tuple(range(len(self.names))))
        synonyms = (tuple(unicodedata.normalize("NFC", word) for word in words) for words in self.synonyms)
        set_field(self, "synonyms", tuple(synonyms) or ((),) * len(self.names))
        self._check()

    def _check(self) -> None:
        for key in ("palette", "ids", "synonyms"):
            if len(getattr(self, key)) != len(self.names):
                raise ValueError(
                    f"classes.{key} must have one entry for each of the {len(self.names)} names, "
                    f"got {len(getattr(self, key))}; add or remove entries."
                )
        for name in self.names:
            if not name or not name.isprintable() or "${" in name:
                raise ValueError(
                    f"classes.names must be printable and not empty, without `${{`, got {name!r}; rename the class."
                )
        for key in ("names", "ids"):
            values = getattr(self, key)
            if doubled := sorted({value for value in values if values.count(value) > 1}):
                raise ValueError(f"classes.{key} must be unique, got {doubled} more than once; rename or remove one.")
        for colour in self.palette:
            if len(colour) != 3 or any(not 0 <= part <= 255 for part in colour):
                raise ValueError(f"classes.palette must be three numbers in 0..255 a class, got {colour}; correct it.")
        for class_id in self.ids:
            if not 0 <= class_id <= LARGEST_ID:
                raise ValueError(
                    f"classes.ids must be in 0..{LARGEST_ID}, got {class_id}; use the values in the mask files."
                )

    def __len__(self) -> int:
        return len(self.names)

    @classmethod
    def ade20k(cls) -> "ClassList":
        """The 150 classes of ADE20K's scene parsing benchmark, with ids 1..150 as in its annotations."""
        return cls.from_file(ADE20K_FILE)

    @classmethod
    def from_names(cls, names: Sequence[str]) -> "ClassList":
        """Classes with ids ``0..K-1`` and a distinct colour each.

        Args:
            names: one unique name for each class.

        Raises:
            ValueError: a name occurs twice.
        """
        return cls(tuple(names), tuple(distinct_colours(len(names))))

    @classmethod
    def from_file(cls, path: str | Path) -> "ClassList":
        """Classes from a text file with one class a line: ``name``, ``id name``, either with `` r,g,b`` at its end.

        Commas may stand for blanks and blanks for commas: three numbers after a name are always a colour. The id is
        the value in the mask files; without ids the classes are 0, 1, 2 and so on. Synonyms may follow a name after
        ``;``. Empty lines and what follows ``#`` are passed over. Classes without a colour get a distinct one. A file
        ``.json`` holds ``{"id": "name"}``, alone or under ``id2label`` as in a model's ``config.json``.

        Args:
            path: the file, UTF-8.

        Raises:
            FileNotFoundError: there is no such file.
            ValueError: a line cannot be read, only some lines have an id, an id occurs twice, or a name does, case
                aside.
        """
        path = Path(path)
        try:
            text = path.read_text("utf-8-sig")
        except (FileNotFoundError, IsADirectoryError) as error:
            what = "is a folder" if path.is_dir() else "does not exist"
            raise FileNotFoundError(
                f"data.classes must be a text file with one class a line, got {path.absolute()}, which {what}."
            ) from error
        except (OSError, ValueError) as error:
            raise ValueError(f"data.classes must be a text file in UTF-8, got {path} ({error}); convert it.") from error
        try:
            classes = _from_json(text) if path.suffix.lower() == ".json" else _from_lines(text)
            _check_alike(classes.names)
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from error
        return classes

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "ClassList":
        """The list that ``to_dict`` wrote.

        Args:
            values: names, palette, ids and synonyms as lists.
        """
        return cls(
            names=tuple(values["names"]),
            palette=tuple((int(red), int(green), int(blue)) for red, green, blue in values["palette"]),
            ids=tuple(values["ids"]),
            synonyms=tuple(tuple(words) for words in values.get("synonyms", ())),
        )

    def to_dict(self) -> dict[str, Any]:
        """Everything in lists, strings and integers."""
        return {
            "names": list(self.names),
            "palette": [list(colour) for colour in self.palette],
            "ids": list(self.ids),
            "synonyms": [list(words) for words in self.synonyms],
        }

    def without(self, ids: Collection[int]) -> "ClassList":
        """The classes whose id is not among ``ids``, in their order, with their ids and colours.

        Args:
            ids: values in the mask files.
        """
        return self._chosen(index for index, class_id in enumerate(self.ids) if class_id not in ids)

    def _chosen(self, indices: Iterable[int]) -> "ClassList":
        chosen = tuple(indices)
        return ClassList(
            names=tuple(self.names[index] for index in chosen),
            palette=tuple(self.palette[index] for index in chosen),
            ids=tuple(self.ids[index] for index in chosen),
            synonyms=tuple(self.synonyms[index] for index in chosen),
        )


def distinct_colours(count: int, taken: Collection[Colour] = ()) -> list[Colour]:
    """Colours that differ from one another, neighbours in the list by far.

    Args:
        count: how many.
        taken: colours not to use.
    """
    colours: dict[Colour, None] = {}
    step = 0
    while len(colours) < count:
        hue, saturation, value = step * 0.618034 % 1, (0.75, 0.5, 0.95)[step % 3], (0.95, 0.8, 0.6)[step // 3 % 3]
        red, green, blue = (round(255 * part) for part in colorsys.hsv_to_rgb(hue, saturation, value))
        if (red, green, blue) not in taken:
            colours[red, green, blue] = None
        step += 1
    return list(colours)


def _colour(text: str | None) -> Colour | None:
    if text is None:
        return None
    red, green, blue = map(int, re.findall(r"\d+", text))
    return red, green, blue


def _filled(colours: Sequence[Colour | None]) -> tuple[Colour, ...]:
    given = [colour for colour in colours if colour is not None]
    spare = iter(distinct_colours(len(colours) - len(given), given))
    return tuple(next(spare) if colour is None else colour for colour in colours)


def _from_lines(text: str) -> ClassList:
    lines = (re.sub(r"(^|\s)#.*", "", line).strip() for line in text.splitlines())
    entries = [match for line in lines if line and (match := _LINE.match(line))]
    with_id = [entry for entry in entries if entry["id"] is not None]
    if not entries:
        raise ValueError("data.classes must hold at least one class, got none; write one name a line.")
    if with_id and len(with_id) < len(entries):
        bare = next(entry.string for entry in entries if entry["id"] is None)
        raise ValueError(
            f"data.classes must give an id in every line or in none, got '{with_id[0].string}' and '{bare}'; write "
            f"`id name` in each line."
        )
    words = [tuple(map(_tidy, entry["names"].split(";"))) for entry in entries]
    return ClassList(
        names=tuple(names[0] for names in words),
        palette=_filled([_colour(entry["colour"]) for entry in entries]),
        ids=tuple(int(entry["id"]) for entry in with_id),
        synonyms=tuple(names[1:] for names in words),
    )


def _from_json(text: str) -> ClassList:
    """Classes from ``{"0": "wall", ...}`` or from what holds this under ``id2label``."""
    try:
        pairs = json.loads(text, object_pairs_hook=_Pairs)
        if isinstance(pairs, _Pairs):
            pairs = next((value for key, value in pairs if key == "id2label"), pairs)
        if not isinstance(pairs, _Pairs) or not all(isinstance(value, str) for _, value in pairs):
            raise ValueError("it holds something else")
        entries = sorted((int(key), _tidy(value)) for key, value in pairs)
    except ValueError as error:
        raise ValueError(f'data.classes must hold {{"id": "name"}} in JSON, got what is not that ({error}).') from error
    if not entries:
        raise ValueError("data.classes must hold at least one class, got none; write an id and a name for each.")
    names = tuple(name for _, name in entries)
    return ClassList(names, tuple(distinct_colours(len(names))), tuple(class_id for class_id, _ in entries))


def _tidy(name: str) -> str:
    return " ".join(name.split())


class _Pairs(list[tuple[str, Any]]):
    """A JSON object with every key that the file holds, repeated ones too."""


def _check_alike(names: Sequence[str]) -> None:
    seen: dict[str, str] = {}
    for name in names:
        if (first := seen.setdefault(name.casefold(), name)) != name:
            raise ValueError(
                f"data.classes must not hold names that differ in case alone, got `{first}` and `{name}`; "
                f"remove or rename one."
            )
