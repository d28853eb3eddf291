import pytest
from drawn_files import labels, save, texture

from src.data.checks import raise_errors

MASKS = [labels((8, 8), (0, 1))] * 8


def test_all_files_that_cannot_be_used_are_named_at_once(drawn, findings, tmp_path):
    data = drawn(MASKS)
    (tmp_path / "train" / "images" / "000.png").write_text("no picture")
    save(tmp_path / "train" / "masks" / "001.png", labels((8, 9), (0, 1)))
    (tmp_path / "train" / "masks" / "002.png").write_bytes(b"")
    save(tmp_path / "train" / "masks" / "003.png", texture((8, 8)))
    (finding,) = findings(data)
    first, *lines = finding.message.split("\n")
    assert (finding.severity, first) == ("error", "4 of the 8 training masks, or their images, cannot be used:")
    assert len(lines) == 4
    text = "".join(lines)
    assert all(name in text for name in ("images/000.png", "masks/001.png with 8x9", "masks/002.png", "masks/003.png"))


def test_many_files_that_cannot_be_used_make_no_wall(drawn, findings, tmp_path):
    data = drawn(MASKS)
    for path in (tmp_path / "val" / "images").iterdir():
        path.write_text("no picture")
    (finding,) = findings(data)
    assert finding.message.startswith("8 of the 8 validation masks, or their images, cannot be used:")
    assert finding.message.endswith("... and 3 more")


def test_jpeg_masks_are_refused_with_the_reason(drawn, findings, tmp_path):
    data = drawn(MASKS)
    for path in sorted((tmp_path / "train" / "masks").iterdir()):
        save(path.with_suffix(".jpg"), labels((8, 8), (0, 255)))
        path.unlink()
    (finding,) = [finding for finding in findings(data) if finding.severity == "error"]
    assert "mask must be stored without loss, got JPEG with" in finding.message


def test_errors_of_both_splits_are_raised_together(drawn, findings, tmp_path):
    data = drawn(MASKS)
    for split in ("train", "val"):
        (tmp_path / split / "images" / "005.png").write_text("no picture")
    with pytest.raises(ValueError, match=r"(?s)1 of the 8 training masks.*\n1 of the 8 validation masks"):
        raise_errors(findings(data))
