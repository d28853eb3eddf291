import os
import platform
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from src.files import folder_written_beside, put_back, remove_stale_parts, written_beside


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


def ended() -> int:
    """The number of a process that has ended."""
    return int(subprocess.run(["sh", "-c", "echo $$"], capture_output=True, check=True).stdout)


def moved_away(folder: Path, process: int, machine: str | None = None) -> Path:
    """The old folder as a process leaves it that is killed before the new one takes its place."""
    with folder_written_beside(folder) as beside:
        name = beside.with_suffix(".old").name
    old = folder.with_name(name.replace(f".{os.getpid()}.", f".{process}."))
    old = old.with_name(old.name.replace(platform.node()[:64], machine)) if machine else old
    filled(folder, "old")
    folder.rename(old)
    return old


def test_a_folder_that_a_killed_process_had_moved_away_is_put_back(tmp_path):
    moved_away(tmp_path / "folder", ended())
    put_back(tmp_path / "another")
    assert not (tmp_path / "folder").exists()
    put_back(tmp_path / "folder")
    assert (tmp_path / "folder" / "a.txt").read_text() == "old"
    assert list(tmp_path.iterdir()) == [tmp_path / "folder"]


def test_a_new_folder_is_never_replaced_by_the_old_one(tmp_path):
    old = moved_away(tmp_path / "folder", ended())
    filled(tmp_path / "folder", "new")
    put_back(tmp_path / "folder")
    assert (tmp_path / "folder" / "a.txt").read_text() == "new"
    assert not old.exists()


def test_what_a_running_process_has_moved_away_is_its_own(tmp_path):
    here, elsewhere = tmp_path / "here", tmp_path / "elsewhere"
    kept = {moved_away(here, os.getppid()), moved_away(elsewhere, ended(), machine="another")}
    put_back(here)
    put_back(elsewhere)
    assert set(tmp_path.iterdir()) == kept


def test_threads_have_parts_of_their_own(tmp_path):
    def write(number):
        with written_beside(tmp_path / "a.txt") as beside:
            beside.write_text(str(number))
            together.wait(timeout=30)
            return beside.read_text() == str(number)

    together = threading.Barrier(4)
    with ThreadPoolExecutor(4) as threads:
        assert all(threads.map(write, range(4)))
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.txt"]
