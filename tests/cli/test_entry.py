import shutil

import numpy as np
import pytest
from lightning.pytorch.utilities.exceptions import SIGTERMException
from PIL import Image

from src.cli import main


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--config", "no.yaml"], "error: --config must be a YAML file"),
        (["--config", "custom_masks.yaml", "--data.classes", "no.txt"], "error: data.classes must be a text file"),
        (["--config", "sample.yaml", "--data.crop_size", "0"], "error: data.crop_size must be at least 1, got 0"),
    ],
)
def test_what_is_wrong_is_said_in_a_line_without_a_traceback(arguments, said, run_python):
    result = run_python("src.fit", arguments, check=False)
    assert result.returncode == 1
    assert said in result.stderr
    assert "Traceback" not in result.stderr


def test_what_a_worker_says_of_a_file_is_said_in_a_line(tiny_config, sample_root, tmp_path, run_python):
    shutil.copytree(sample_root, tmp_path / "bad")
    path = sorted((tmp_path / "bad" / "annotations" / "validation").iterdir())[0]
    Image.fromarray(np.full_like(np.asarray(Image.open(path)), 77)).save(path)
    flags = ["--data.root", str(tmp_path / "bad"), "--data.num_workers", "1"]
    result = run_python("src.fit", [f"--config={tiny_config}", *flags], check=False)
    assert result.returncode == 1
    assert "Traceback" not in result.stderr
    said = result.stderr.splitlines()[-1]
    assert said.startswith("error: ")
    assert path.name in said
    assert "77" in said


def test_another_package_called_src_is_named(tmp_path, run_python):
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "__init__.py").touch()
    result = run_python("src", ["--help"], extra_path=tmp_path)
    assert f"the other one in {tmp_path} is not used" in result.stderr
    assert "usage" in result.stdout


def test_a_run_that_is_told_to_end_does_not_look_finished(monkeypatch):
    def ended(*args, **kwargs):
        raise SIGTERMException

    monkeypatch.setattr("src.cli.entry.SegmentationCLI", ended)
    with pytest.raises(SystemExit) as end:
        main("fit")
    assert end.value.code == 143
