import pytest

from src.files import written_beside


def test_appears_whole_with_its_folder(tmp_path):
    path = tmp_path / "new" / "a.txt"
    with written_beside(path) as beside:
        beside.write_text("all")
        assert not path.exists()
    assert path.read_text() == "all"
    assert [entry.name for entry in path.parent.iterdir()] == ["a.txt"]


def test_an_error_leaves_the_old_file_and_nothing_else(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("old")
    with pytest.raises(RuntimeError, match="stop"), written_beside(path) as beside:
        beside.write_text("half")
        raise RuntimeError("stop")
    assert path.read_text() == "old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.txt"]
