from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch
from drawn_files import save, texture

from src.classes import ClassList
from src.data import ADE20K, ImageFolder, MaskFolder, Mixture, Pair, Part, Sample, SegmentationDataModule
from src.data.mixture import OTHERS

MASK = np.array([[0, 1, 2, 300]], np.uint16).repeat(2, axis=0)


def folder(root: Path, classes: str, mask: np.ndarray = MASK, count: int = 4, **options) -> MaskFolder:
    for index in range(count):
        save(root / "images" / f"{index}.png", texture(mask.shape, index))
        save(root / "masks" / f"{index}.png", mask)
    (root / "classes.txt").write_text(classes)
    folders = {"images": f"{root}/images", "masks": f"{root}/masks", "classes": f"{root}/classes.txt"}
    return MaskFolder(**folders, val_fraction=0.25, **options)


@pytest.fixture
def town(tmp_path):
    return folder(tmp_path / "town", "0 car\n1 truck\n2 sky\n300 grass\n")


@pytest.fixture
def field(tmp_path):
    return folder(tmp_path / "field", "1 grass\n2 vehicle\n", np.array([[1, 2, 255]], np.uint8), count=8)


@pytest.fixture
def mixed(tmp_path):
    def build(parts: dict[str, Part], classes: str = "7 vehicle\n9 grass\n", **options) -> Mixture:
        (tmp_path / "classes.txt").write_text(classes)
        return Mixture(f"{tmp_path}/classes.txt", parts, **{"num_workers": 0, "crop_size": 32} | options)

    return build


TO_VEHICLE = {"car": "vehicle", "truck": "vehicle", "sky": None}


def values_of(data: Mixture, split: str = "train") -> dict[str, set[tuple[int, ...]]]:
    """Labels of the first row of every mask, by the part that it is of."""
    found: dict[str, set[tuple[int, ...]]] = {}
    for pair in data.pairs(split):
        labels = data.sources()[pair.source].labels(pair, (2, 4) if pair.name.startswith("town/") else (1, 3))
        found.setdefault(pair.name.partition("/")[0], set()).add(tuple(labels[0].tolist()))
    return found


def test_each_part_is_read_by_its_own_ids_into_the_classes_of_the_mixture(mixed, town, field):
    data = mixed({"town": Part(town, renamed=TO_VEHICLE), "field": Part(field)})
    assert data.classes.names == ("vehicle", "grass")
    assert data.classes.ids == (7, 9)
    assert values_of(data) == {"town": {(0, 0, 255, 1)}, "field": {(1, 0, 255)}}


def test_masks_may_not_be_written_where_a_part_looks_for_images(mixed, town, field, tmp_path):
    data = mixed({"town": Part(town, renamed=TO_VEHICLE), "field": Part(field)})
    assert data.searched_folders() == {tmp_path / "town" / "images", tmp_path / "field" / "images"}


def test_a_part_whose_name_begins_another_counts_its_own_images(mixed, town, field):
    data = mixed({"a": Part(town, 1.0, TO_VEHICLE), "ab": Part(field, 3.0)})
    assert data.training_sampler(data.pairs("train"), 10, 0, 1).sizes == [3, 6]


def test_unknown_values_are_answered_with_the_options_of_their_part(mixed, town, field, tmp_path):
    data = mixed({"town": Part(town, renamed=TO_VEHICLE), "field": Part(field)})
    save(tmp_path / "field" / "masks" / "0.png", np.full((1, 3), 9, np.uint8))
    pair = next(pair for pair in [*data.pairs("train"), *data.pairs("val")] if pair.name == "field/0.png")
    with pytest.raises(ValueError, match=r"got 9 .*add the values to data\.parts\.field\.data\.classes, data\.parts\."):
        data.sources()[pair.source].labels(pair, (1, 3))


def test_a_parts_own_ignored_and_shifted_and_mapped_values_count(mixed, tmp_path):
    ignoring = folder(tmp_path / "a", "0 car\n1 grass\n2 sky\n", ignored_ids=[2, 300])
    shifted = folder(tmp_path / "b", "0 car\n1 grass\n299 sky\n", reduce_zero_label=True)
    mapped = folder(tmp_path / "c", "0 car\n1 grass\n", mapping={2: "car", 300: None})
    parts = {
        "a": Part(ignoring, renamed={"car": "vehicle"}),
        "b": Part(shifted, renamed={"car": "vehicle", "sky": None}),
        "c": Part(mapped, renamed={"car": "vehicle"}),
    }
    data = mixed(parts)
    rows = {pair.name[0]: data.sources()[pair.source].labels(pair, (2, 4))[0].tolist() for pair in data.pairs("train")}
    assert rows == {"a": [0, 1, 255, 255], "b": [255, 0, 1, 255], "c": [0, 1, 0, 255]}


def test_values_of_a_part_that_are_none_of_its_classes_are_refused_though_the_mixture_has_them(mixed, tmp_path):
    data = mixed({"a": Part(folder(tmp_path / "a", "0 vehicle\n1 grass\n", np.array([[0, 7]], np.uint8)))})
    with pytest.raises(
        ValueError, match=r"mask must hold ids of data\.parts\.a\.data\.classes \(0, 1\).*got 7 \(1 pixels\) in .*png"
    ):
        data.sources()[0].labels(data.pairs("train")[0], (1, 2))


def test_what_an_encoder_tells_of_a_part_agrees_with_what_it_does(mixed, town):
    encoder = mixed({"town": Part(town, renamed=TO_VEHICLE)}).sources()[0].encoder
    assert encoder.indices == {0: 0, 1: 0, 300: 1}
    assert encoder.ignored_ids == (2, 255)
    assert encoder(np.array([[0, 1, 300, 2, 255]]), "a.png").tolist() == [[0, 0, 1, 255, 255]]


def test_synonyms_meet_on_both_sides_and_a_name_goes_before_them(mixed, tmp_path):
    part = folder(tmp_path / "a", "0 auto; car\n1 grass; vehicle\n2 meadow\n300 lawn\n")
    data = mixed({"town": Part(part)}, "vehicle; car\ngrass; lawn; meadow\n")
    assert values_of(data)["town"] == {(0, 1, 1, 1)}
    with pytest.raises(ValueError, match=r"nothing for 'lawn'"):
        mixed({"town": Part(part)}, "vehicle; car\ngrass; meadow\n")


def test_all_other_classes_of_a_part_go_one_way(mixed, town, sample_root):
    data = mixed({"town": Part(town, renamed={"car": "vehicle", OTHERS: None})})
    assert values_of(data)["town"] == {(0, 255, 255, 1)}
    data = mixed({"town": Part(town, renamed={"car": "vehicle", OTHERS: "rest"})}, "vehicle\ngrass\nrest\n")
    assert values_of(data)["town"] == {(0, 2, 2, 1)}
    ade = mixed({"a": Part(ADE20K(str(sample_root)), renamed={OTHERS: None})}, "sky\ntree\n")
    assert set(ade.sources()[0].encoder.indices.values()) == {0, 1}


@pytest.mark.parametrize(
    ("renamed", "told"),
    [
        ({}, r"data\.parts\.town\.renamed must say .* nothing for 'car' \(.*\); add `car: NAME`, or `car: null`"),
        (TO_VEHICLE | {"gras": "grass"}, r"must name classes of the part, got 'gras'; the nearest is `grass`"),
        (
            TO_VEHICLE | {"car": "vehicles"},
            r"must lead to classes of data\.classes, got car: vehicles; the nearest is",
        ),
    ],
)
def test_a_class_without_a_place_is_named_with_the_option(mixed, town, renamed, told):
    with pytest.raises(ValueError, match=told):
        mixed({"town": Part(town, renamed=renamed)})


@pytest.mark.parametrize("name", ["", "..", "a/b", "a\\b", "/a"])
def test_names_that_cannot_name_a_folder_are_refused(mixed, field, name):
    with pytest.raises(ValueError, match=r"data\.parts must have names that can name a folder"):
        mixed({name: Part(field)})


@pytest.mark.parametrize("weight", [0.0, -1.0, float("nan"), float("inf")])
def test_weights_that_are_none_are_refused(mixed, field, weight):
    with pytest.raises(ValueError, match=r"data\.parts\.field\.weight must be above 0"):
        mixed({"field": Part(field, weight)})


def test_mixtures_that_say_too_little_are_refused(mixed, field, tmp_path):
    with pytest.raises(ValueError, match=r"data\.parts must hold at least one data set"):
        mixed({})
    with pytest.raises(ValueError, match=r"data\.parts must all have a weight or none, got one for a alone"):
        mixed({"a": Part(field, 1.0), "b": Part(field)})
    with pytest.raises(ValueError, match=r"data\.parts must hold one with `validate: true`"):
        mixed({"a": Part(field, validate=False)})
    with pytest.raises(ValueError, match=r"data\.parts\.a\.data must have masks"):
        mixed({"a": Part(ImageFolder(str(tmp_path)))})


def test_images_of_equal_names_stay_apart(mixed, town, field):
    data = mixed({"town": Part(town, renamed=TO_VEHICLE), "field": Part(field)})
    for split, count in (("train", 3 + 6), ("val", 1 + 2), ("predict", 1 + 2)):
        names = [pair.name for pair in data.pairs(split)]
        assert len(names) == len(set(names)) == count


def test_parts_that_do_not_validate_still_train(mixed, town, field):
    data = mixed({"town": Part(town, renamed=TO_VEHICLE, validate=False), "field": Part(field)})
    assert set(values_of(data, "val")) == {"field"}
    assert set(values_of(data)) == {"town", "field"}
    assert len(data.val_dataloader()) == 2


def names_of(loader) -> list[str]:
    return [name for batch in loader for name in batch["names"]]


def test_without_weights_every_image_comes_once(mixed, town, field):
    names = names_of(
        mixed({"town": Part(town, renamed=TO_VEHICLE), "field": Part(field)}, batch_size=3).train_dataloader()
    )
    assert len(set(names)) == len(names) == 9


def test_with_weights_each_part_has_its_share(mixed, town, field):
    parts = {"town": Part(town, 2.0, TO_VEHICLE), "field": Part(field, 1.0)}
    names = names_of(mixed(parts, batch_size=3).train_dataloader())
    assert Counter(name.partition("/")[0] for name in names) == {"town": 6, "field": 3}
    assert set(Counter(name for name in names if name.startswith("town/")).values()) == {2}


def test_weights_that_leave_a_part_out_are_refused(mixed, town, field):
    data = mixed({"town": Part(town, 1000.0, TO_VEHICLE), "field": Part(field, 1.0)})
    with pytest.raises(ValueError, match=r"data\.parts\.field\.weight must give .* of the 9 samples .*got 1\.0"):
        data.train_dataloader()


@pytest.mark.parametrize("num_workers", [0, 2])
def test_batches_do_not_depend_on_workers_and_go_on_where_they_stopped(mixed, town, field, num_workers):
    parts = {"town": Part(town, 2.0, TO_VEHICLE), "field": Part(field, 1.0)}
    expected = list(mixed(parts, batch_size=3).train_dataloader())
    loader = mixed(parts, batch_size=3, num_workers=num_workers).train_dataloader()
    batches = iter(loader)
    next(batches)
    state = loader.state_dict()
    again = mixed(parts, batch_size=3, num_workers=num_workers).train_dataloader()
    again.load_state_dict(state)
    for resumed, batch in zip(again, expected[1:], strict=True):
        assert resumed["names"] == batch["names"]
        assert torch.equal(resumed["images"], batch["images"])
        assert torch.equal(resumed["masks"], batch["masks"])


class Inverted(SegmentationDataModule):
    """Files of a kind of its own, which it has to fetch first."""

    def __init__(self, root: Path, **common) -> None:
        super().__init__(classes=ClassList.from_names(["vehicle", "grass"]), **common)
        self.root = root

    def prepare_data(self) -> None:
        np.save(self.root / "image.npy", np.full((3, 4, 3), 5, np.uint8))
        np.save(self.root / "mask.npy", np.zeros((3, 4), np.int64))

    @staticmethod
    def read_image(path: Path, channels: int) -> np.ndarray:
        return 255 - np.load(path)

    @staticmethod
    def read_mask(path: Path) -> np.ndarray:
        return 1 - np.load(path)

    def pairs(self, split: str) -> list[Pair]:
        return [Pair("image.npy", self.root / "image.npy", self.root / "mask.npy")]


def test_a_part_prepares_and_reads_its_files_in_its_own_way(mixed, field, tmp_path):
    data = mixed({"field": Part(field), "own": Part(Inverted(tmp_path))})
    data.prepare_data()
    (batch,) = [batch for batch in data.val_dataloader() if batch["names"] == ["own/image.npy"]]
    assert batch["masks"][0].unique().tolist() == [1]
    assert torch.equal(batch["images"][0], data.preprocessing(np.full((3, 4, 3), 250, np.uint8)))


def test_a_mixture_is_a_part_of_a_mixture(mixed, town, field, tmp_path):
    inner = mixed({"town": Part(town, renamed=TO_VEHICLE), "field": Part(field)})
    own = Part(folder(tmp_path / "own", "0 grass\n1 vehicle\n", np.array([[1, 0, 0]], np.uint8)))
    outer = mixed({"inner": Part(inner, renamed={OTHERS: None}), "own": own}, "grass\ncow\nvehicle\n")
    sizes = {"inner/town": (2, 4), "inner/field": (1, 3), "own": (1, 3)}
    for pair in outer.pairs("train"):
        part = pair.name.rpartition("/")[0]
        expected = {"inner/town": [2, 2, 255, 0], "inner/field": [0, 2, 255], "own": [2, 0, 0]}[part]
        assert outer.sources()[pair.source].labels(pair, sizes[part])[0].tolist() == expected


def test_the_samples_pictures_are_made_for_a_mixture(mixed, tmp_path, monkeypatch):
    made: list[Path] = []
    monkeypatch.setattr("src.data.sample.make_pictures", made.append)
    mixed({"streets": Part(Sample(str(tmp_path / "new")), renamed={OTHERS: "grass"})}).prepare_data()
    assert made == [tmp_path / "new"]


def test_the_largest_image_is_a_parts_own_or_else_the_mixtures(mixed, town, field, tmp_path):
    small = folder(tmp_path / "small", "0 vehicle\n1 grass\n", max_image_pixels=1)
    parts = {"town": Part(town, renamed=TO_VEHICLE), "small": Part(small)}
    for limit, readable in ((None, True), (5, False), (8, True)):
        source, own = mixed(parts, max_image_pixels=limit).sources()
        path = town.pairs("train")[0].image
        if readable:
            assert source.read_image(path, 3).shape == (2, 4, 3)
        else:
            with pytest.raises(ValueError, match=r"larger than data\.max_image_pixels"):
                source.read_image(path, 3)
        with pytest.raises(ValueError, match=r"larger than data\.max_image_pixels"):
            own.read_image(path, 3)
