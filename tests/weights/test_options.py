"""How a config says that weights are loaded."""

import pytest
import torch

from src.classes import ClassList
from src.models.settings import plain
from src.weights import LoadOptions
from src.weights.options import named_classes
from tests.weights.files import saved, segmenter, theirs


@pytest.fixture
def path(tmp_path):
    model = segmenter(num_classes=3, seed=1)
    return saved(
        tmp_path / "a.pth", {"model": {f"student.{n}": v for n, v in theirs(model.state_dict(), "official").items()}}
    )


def test_each_option_changes_the_loading(path, tmp_path):
    (tmp_path / "theirs.txt").write_text("sky\nroad\ncar\n")
    ours = ClassList.from_names(["car"])
    plainly = LoadOptions().load(segmenter(1), path, ours)
    assert plainly.new_classes == ("car",)
    named = LoadOptions(source_classes=str(tmp_path / "theirs.txt")).load(segmenter(1), path, ours)
    assert named.new_classes == ()
    assert "decoder.fpn_bottleneck.conv.weight" not in LoadOptions(parts=("encoder",)).load(segmenter(1), path).loaded
    assert "(geometric)" in LoadOptions(resize="geometric").load(segmenter(1, window_size=6), path).adapted[0].what
    with pytest.raises(ValueError, match="missing are"):
        LoadOptions().load(segmenter(1, depths=(2, 2, 3, 2)), path)
    assert LoadOptions(strict=False).load(segmenter(1, depths=(2, 2, 3, 2)), path).missing
    with pytest.raises(ValueError, match="prefix must be"):
        LoadOptions(prefix="teacher").load(segmenter(1), path)


def test_options_are_written_in_plain_types():
    written = plain(LoadOptions(strict=("encoder",)))
    assert written["strict"] == ["encoder"]
    assert LoadOptions(**written).strict == ["encoder"]


def test_classes_by_name_or_file(tmp_path):
    assert named_classes("ADE20K") == ClassList.ade20k()
    (tmp_path / "classes.txt").write_text("a\nb\n")
    assert named_classes(str(tmp_path / "classes.txt")).names == ("a", "b")
    with pytest.raises(FileNotFoundError, match="must be a text file"):
        named_classes("nowhere.txt")


def test_loading_leaves_other_parts_alone(path):
    model = segmenter(3)
    before = model.decoder.conv_seg.weight.clone()
    LoadOptions(parts=("encoder", "auxiliary")).load(model, path)
    assert torch.equal(model.decoder.conv_seg.weight, before)
