from pathlib import Path

from src.cli.run_folder import make_run_folder


def test_run_folders_do_not_meet(tmp_path):
    first, second = make_run_folder("r", "n"), make_run_folder("r", "n")
    assert first != second
    assert first.is_dir()
    assert second.is_dir()
    assert first.parent == second.parent == Path("r/n")
