"""What a library cannot hold of weights, and what it computes otherwise."""

import pytest
import torch

from src.classes import ClassList
from src.models.settings import build
from src.preprocessing import Preprocessing
from src.weights.convert import convert
from src.weights.described import described_encoder
from src.weights.published import read_published
from src.weights.target_limits import check_windows
from tests.weights.files import SMALL, classifier_state, encoder, saved, segmenter, theirs


def described(version: int, windows):
    state = {f"encoder.{name}": value for name, value in encoder(version, window_size=windows).state_dict().items()}
    return described_encoder(state, [(side, side) if isinstance(side, int) else side for side in windows])


@pytest.mark.parametrize(
    ("to", "version"), [("official", 1), ("mmseg", 1), ("torchvision", 1), ("torchvision", 2), ("transformers", 1)]
)
def test_libraries_with_one_window_take_no_others(to, version):
    check_windows(described(version, [4, 4, 4, 4]), to, 32)
    with pytest.raises(ValueError, match=rf"must share one window in {to}, got 4x4, 4x4, 4x4, 2x2; `--to toolkit`"):
        check_windows(described(version, [4, 4, 4, 2]), to, 64)


@pytest.mark.parametrize(("to", "version"), [("microsoft", 1), ("timm", 1), ("timm", 2), ("transformers", 2)])
def test_libraries_whose_windows_shrink_to_the_map_take_those_alone(to, version):
    for windows, size in (([4, 4, 4, 4], 128), ([4, 4, 4, 2], 64), ([4, 4, 2, 1], 32), ([8, 4, 2, 1], 39)):
        check_windows(described(version, windows), to, size)
    for windows, size in (([4, 4, 4, 2], 128), ([4, 4, 4, 4], 64), ([2, 4, 4, 4], 128), ([4, 2, 4, 2], 64)):
        with pytest.raises(ValueError, match=rf"must be those that {to} builds for images of {size} pixels, .* got "):
            check_windows(described(version, windows), to, size)


def test_windows_that_nothing_tells_are_asked_for_where_they_matter():
    state = {f"encoder.{name}": value for name, value in encoder(2).state_dict().items()}
    check_windows(described_encoder(state), "timm", 128)
    for to in ("torchvision", "microsoft", "transformers"):
        with pytest.raises(ValueError, match="the window of this Swin V2 must be known"):
            check_windows(described_encoder(state), to, 128)


@pytest.mark.parametrize("to", ["official", "mmseg", "torchvision", "transformers", "timm", "microsoft"])
def test_windows_of_every_stage_are_refused_or_held(tmp_path, to):
    path = saved(tmp_path / "a.pth", encoder(window_size=[2, 4, 2, 4]).state_dict())
    out = tmp_path / ("out" if to == "transformers" else "out.pth")
    with pytest.raises(ValueError, match=r"share one window|must be those that"):
        convert(path, out, to)
    assert not out.exists()


def test_timm_takes_windows_that_shrink_to_the_map(tmp_path):
    timm = pytest.importorskip("timm")
    path = saved(tmp_path / "a.pth", classifier_state(encoder(window_size=[4, 4, 4, 2])))
    convert(path, tmp_path / "timm.pth", "timm")
    sizes = {name: SMALL[name] for name in ("embed_dim", "depths", "num_heads")}
    peer = timm.create_model("swin_tiny_patch4_window7_224", num_classes=10, img_size=64, window_size=4, **sizes)
    peer.load_state_dict(torch.load(tmp_path / "timm.pth", weights_only=True), strict=True)
    convert(path, tmp_path / "microsoft.pth", "microsoft")
    assert read_published(tmp_path / "microsoft.pth").describe().windows == ((4, 4), (4, 4), (4, 4), (2, 2))


@pytest.mark.parametrize(
    ("name", "held"),
    [
        ("swinv2_base_window12to16_192to256.pth", True),
        ("swinv2_base_window16_256.pth", False),
        ("swinv2_base_window8_256.pth", False),
        ("out.pth", False),
    ],
)
def test_windows_that_the_name_of_a_file_for_timm_does_not_tell_are_named(tmp_path, name, held):
    (tmp_path / "timm").mkdir()
    path = saved(tmp_path / "swinv2_base_window12to16_192to256.pth", classifier_state(encoder(2)))
    done = convert(path, tmp_path / "timm" / name, "timm")
    assert done.not_held == (() if held else ("windows",))
    assert (read_published(tmp_path / "timm" / name).windows == read_published(path).windows) == held


def test_windows_that_are_not_square_are_not_told_to_timm(tmp_path):
    folder = segmenter(window_size=(2, 3)).save_pretrained(tmp_path / "saved")
    assert "windows" in convert(folder, tmp_path / "out.pth", "timm").not_held
    assert "windows" not in convert(segmenter().save_pretrained(folder), tmp_path / "new.pth", "timm").not_held


@pytest.mark.parametrize(
    ("settings", "to", "told"),
    [
        (
            {},
            "torchvision",
            "has a shift also where a window covers the map (shift_covered: true), torchvision has none",
        ),
        ({}, "timm", "has a shift also where a window covers the map (shift_covered: true), timm has none"),
        ({"shift_covered": False}, "mmseg", "has no shift where a window covers the map (shift_covered: false), mmseg"),
        ({"padded_keys": "mask"}, "mmseg", "keeps padding out of attention (padded_keys: mask), mmseg does not"),
    ],
)
def test_another_function_of_the_target_is_told(tmp_path, settings, to, told):
    folder = segmenter(**settings).save_pretrained(tmp_path / "saved", preprocessing=Preprocessing())
    assert told in str(convert(folder, tmp_path / "out.pth", to))


@pytest.mark.parametrize(
    ("settings", "to"),
    [({}, "mmseg"), ({}, "toolkit"), ({"shift_covered": False}, "timm"), ({"shift_covered": False}, "toolkit")],
)
def test_the_same_function_is_no_news(tmp_path, settings, to):
    folder = segmenter(**settings).save_pretrained(tmp_path / "saved")
    assert convert(folder, tmp_path / "out.pth", to).notes == ()


def test_what_smp_computes_otherwise_is_told(tmp_path):
    model = segmenter(num_classes=150)
    model.auxiliary = None
    path = saved(tmp_path / "smp.pth", theirs(model.state_dict(), "smp"))
    for to, out in (("toolkit", "out.ckpt"), ("mmseg", "out.pth")):
        told = str(convert(path, tmp_path / out, to, classes=ClassList.ade20k()))
        assert f"after the shift of their windows and norms the outputs with an epsilon of 1e-6, {to}" in told
        assert f"(shift_covered: false), {to} has" in told


@pytest.mark.parametrize("to", ["mmseg", "microsoft"])
@pytest.mark.parametrize("grid", [(4, 9), (6, 6)])
def test_a_grid_that_a_file_does_not_tell_is_told(tmp_path, to, grid):
    model = encoder(absolute_pos_embed=grid)
    folder = saved(tmp_path / "ours.pth", model.state_dict())
    done = convert(folder, tmp_path / "out.pth", to)
    told = f"the file does not tell the grid of the position embedding, {grid[0]}x{grid[1]} tokens"
    assert (told in done.notes) == (grid == (4, 9))
    held = torch.load(tmp_path / "out.pth", weights_only=True)["model" if to == "microsoft" else "state_dict"]
    assert torch.equal(held["absolute_pos_embed"], model.absolute_pos_embed.flatten(2).mT)


def test_the_grid_goes_to_transformers_in_its_config(tmp_path):
    transformers = pytest.importorskip("transformers")
    model = encoder(absolute_pos_embed=(4, 9))
    convert(saved(tmp_path / "ours.pth", model.state_dict()), tmp_path / "hub", "transformers")
    peer = transformers.SwinBackbone.from_pretrained(tmp_path / "hub").eval()
    back = read_published(tmp_path / "hub")
    assert torch.equal(back.state["encoder.absolute_pos_embed"], model.absolute_pos_embed)
    again = build(back.describe().settings).eval()
    again.load_state_dict(model.state_dict())
    images = torch.randn(1, 3, 16, 36)
    with torch.no_grad():
        for theirs_, ours in zip(peer(images).feature_maps, again(images), strict=True):
            torch.testing.assert_close(theirs_, ours, rtol=1e-5, atol=1e-5)
