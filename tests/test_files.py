import os
import subprocess
import sys

import pytest

from src.files import remove_stale_parts, written_beside


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
