from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from src.cli.run_folder import make_run_folder


def test_run_folders_do_not_meet(tmp_path):
    first, second = make_run_folder("r", "n"), make_run_folder("r", "n")
    assert first != second
    assert first.is_dir()
    assert second.is_dir()
    assert first.parent == second.parent == Path("r/n")


def test_runs_that_begin_at_once_have_folders_of_their_own():
    with ThreadPoolExecutor(8) as pool:
        folders = list(pool.map(lambda _: make_run_folder("r", "n"), range(32)))
    assert len(set(folders)) == 32


def test_a_folder_that_cannot_be_made_is_named():
    Path("file").touch()
    with pytest.raises(ValueError, match=r"--runs must be a folder to write to, got file, where .* cannot be made"):
        make_run_folder("file", "n")
