import os
import subprocess
import sys

import pytest

from src.files import folder_written_beside, remove_stale_parts, written_beside


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


def test_the_longest_name_that_a_file_system_takes_can_be_written(tmp_path):
    path = tmp_path / ("é" * 127 + "x")
    with written_beside(path) as beside:
        beside.write_text("all")
    assert path.read_text() == "all"


def test_what_a_killed_process_left_is_removed_and_nothing_else(tmp_path):
    kill = "import os; from pathlib import Path; from src.files import written_beside\n"
    kill += f"with written_beside(Path({str(tmp_path / 'a.txt')!r})) as beside: beside.touch(); os.kill(os.getpid(), 9)"
    subprocess.run([sys.executable, "-c", kill], check=False)
    (stale,) = tmp_path.iterdir()
    for name in (".mine.part", "b.part"):
        (tmp_path / name).touch()
    with written_beside(tmp_path / "c.txt") as running:
        running.touch()
        elsewhere = tmp_path / stale.name.replace(stale.name.split(".")[2], "another")
        elsewhere.touch()
        remove_stale_parts(tmp_path)
        kept = {path.name for path in tmp_path.iterdir()}
        assert kept == {".mine.part", "b.part", running.name, elsewhere.name}
        os.utime(elsewhere, (1, 1))
        remove_stale_parts(tmp_path)
        assert not elsewhere.exists()
        assert running.exists()


def test_an_absent_folder_holds_nothing_stale(tmp_path):
    remove_stale_parts(tmp_path / "absent")
    assert list(tmp_path.iterdir()) == []


def filled(folder, text):
    folder.mkdir(exist_ok=True)
    (folder / "a.txt").write_text(text)


def test_a_folder_appears_whole_and_takes_the_place_of_the_old_one(tmp_path):
    path = tmp_path / "new" / "folder"
    for text in ("first", "second"):
        with folder_written_beside(path) as beside:
            filled(beside, text)
            assert not path.exists() or (path / "a.txt").read_text() == "first"
        assert (path / "a.txt").read_text() == text
        assert [entry.name for entry in path.parent.iterdir()] == ["folder"]


def test_an_error_leaves_the_old_folder_and_nothing_else(tmp_path):
    filled(tmp_path / "folder", "old")
    with pytest.raises(RuntimeError, match="stop"), folder_written_beside(tmp_path / "folder") as beside:
        filled(beside, "half")
        raise RuntimeError("stop")
    assert (tmp_path / "folder" / "a.txt").read_text() == "old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["folder"]


def test_the_old_folder_is_put_back_where_the_new_one_cannot_take_its_place(tmp_path):
    filled(tmp_path / "folder", "old")
    with pytest.raises(OSError), folder_written_beside(tmp_path / "folder") as beside:
        beside.rmdir()
    assert (tmp_path / "folder" / "a.txt").read_text() == "old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["folder"]


def test_a_folder_that_a_killed_process_left_is_removed(tmp_path):
    kill = "import os; from pathlib import Path; from src.files import folder_written_beside\n"
    kill += f"with folder_written_beside(Path({str(tmp_path / 'a')!r})) as beside: os.kill(os.getpid(), 9)"
    subprocess.run([sys.executable, "-c", kill], check=False)
    (stale,) = tmp_path.iterdir()
    filled(stale, "half")
    remove_stale_parts(tmp_path)
    assert list(tmp_path.iterdir()) == []
