"""What a file may have imported, and what not."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from torch import nn

from src.models.importing import imported

ROOT = Path(__file__).parents[2]
ASK = "from src.models.importing import imported; print(imported('landcover.Net'))"


def asked(folder: Path, *path: str) -> subprocess.CompletedProcess[str]:
    """A process whose working folder stands first on Python's path, as with ``python -m``."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), *path])}
    return subprocess.run([sys.executable, "-c", ASK], cwd=folder, env=environment, capture_output=True, text=True)


@pytest.fixture(params=["landcover.py", "landcover/__init__.py"])
def folder(tmp_path, request):
    file = tmp_path / "work" / request.param
    file.parent.mkdir(parents=True)
    file.write_text("open('ran', 'w').close()\n\n\nclass Net:\n    pass\n")
    return tmp_path / "work"


def test_a_module_that_lies_in_the_working_folder_is_not_run(folder):
    result = asked(folder)
    assert result.returncode == 1
    assert "landcover.Net is needed to build this model and would be imported from the working folder" in result.stderr
    assert not (folder / "ran").exists()


def test_it_is_where_its_user_says_so(folder):
    result = asked(folder, str(folder))
    assert (result.returncode, result.stdout) == (0, "<class 'landcover.Net'>\n")


def test_a_package_elsewhere_on_the_path_is_taken(folder, tmp_path):
    assert asked(tmp_path, str(folder)).returncode == 0


@pytest.mark.parametrize("path", ["this.Net", "xml.dom.Net"])
def test_modules_of_python_itself_are_refused_without_a_look(path, monkeypatch):
    for name in [name for name in sys.modules if name.partition(".")[0] == path.partition(".")[0]]:
        monkeypatch.delitem(sys.modules, name)
    with pytest.raises(ImportError, match="is a module of Python itself"):
        imported(path)
    assert path.partition(".")[0] not in sys.modules


def test_installed_packages_are_taken():
    assert imported("torch.nn.Linear") is nn.Linear


@pytest.mark.parametrize("path", ["torch.nn.Nothing", "no_such_package.Net", "Net", "", ".Net"])
def test_what_is_not_there_is_told(path):
    with pytest.raises(ImportError, match="cannot be imported"):
        imported(path)
