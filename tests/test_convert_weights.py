import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from src.classes import ClassList
from src.cli import SegmentationCLI
from src.convert_weights import main
from src.data.sample_pictures import CLASSES
from src.preprocessing import Preprocessing
from src.weights.named import NAMED
from tests.weights.files import segmenter

ROOT = Path(__file__).parents[1]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["src"])
    segmenter(num_classes=len(CLASSES)).save_pretrained("model", CLASSES, Preprocessing())
    return tmp_path


def failed(capsys, *arguments: str) -> tuple[object, str]:
    with pytest.raises(SystemExit) as end:
        main(arguments)
    return end.value.code, capsys.readouterr().err


def test_the_names_are_listed(capsys):
    main(["--list"])
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[1:]] == list(NAMED)


def test_a_conversion_says_what_it_did(folder, capsys):
    main(["model", "out.pth", "--to", "mmseg"])
    told, not_held = capsys.readouterr().out.splitlines()
    assert told.startswith("out.pth: segmentor, mmseg, ")
    assert not_held == "not held: preprocessing"


def test_no_trainer_is_imported(tmp_path):
    code = "import sys; from src.convert_weights import main; main(['--list']); print('lightning' in sys.modules)"
    environment = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment, cwd=tmp_path)
    assert done.stdout.splitlines()[-1] == "False"


def test_a_checkpoint_of_others_is_scored_at_once(folder, sample_root):
    main(["model", "theirs.pth", "--to", "official"])
    main(["theirs.pth", "x.ckpt", "--to", "toolkit"])
    words = ["--data", "src.data.Sample", "--data.root", str(sample_root), "--data.num_workers", "0"]
    scored = SegmentationCLI(
        "validate", ["--ckpt_path", "x.ckpt", *words, "--trainer.limit_val_batches", "1"]
    ).trainer  # fmt: skip
    assert 0 <= scored.callback_metrics["val/miou"] <= 1


def test_a_file_of_classes_names_the_outputs(folder, capsys):
    state = segmenter(num_classes=2).state_dict()
    torch.save(state, "ours.pth")
    Path("classes.txt").write_text("1 wall\n2 floor")
    main(["ours.pth", "x.ckpt", "--to", "toolkit", "--classes", "classes.txt"])
    section = torch.load("x.ckpt", weights_only=True)["segmentation"]
    assert ClassList.from_dict(section["classes"]).names == ("wall", "floor")
    assert ClassList.from_dict(section["classes"]).ids == (1, 2)
    assert "note: nothing tells the preprocessing" in capsys.readouterr().out


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("model",),
        ("model", "out.pth"),
        ("model", "--to", "mmseg"),
        ("model", "out.pth", "--to", "keras"),
        ("model", "out.pth", "--to", "mmseg", "--image-size", "0"),
        ("model", "out.pth", "--to", "mmseg", "--image-size", "big"),
        ("model", "out.pth", "--to", "mmseg", "--image-size", "9" * 5000),
        ("model", "out.pth", "more", "--to", "mmseg"),
        ("model", "out.pth", "--to", "mmseg", "--colour", "red"),
    ],
)
def test_a_wrong_command_line_ends_with_2(folder, capsys, arguments):
    code, told = failed(capsys, *arguments)
    assert code == 2
    assert "error: " in told
    assert not Path("out.pth").exists()


@pytest.mark.parametrize("size", ["0", "-3", "big", "2.5", "1000000", "9" * 5000, "", "²"])
def test_a_size_that_is_none_is_told_in_plain_words(folder, capsys, size):
    code, told = failed(capsys, "model", "out.pth", "--to", "mmseg", f"--image-size={size}")
    assert code == 2
    assert f"--image-size: must be a whole number of pixels from 1 to 999999, got {size[:20]}\n" in told


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("absent.pth", "out.pth", "--to", "mmseg"), "absent.pth"),
        (("model", "out.onnx", "--to", "mmseg"), "OUT must end in"),
        (("model", "model", "--to", "transformers"), "OUT must be new, got model"),
        (("model", "model/model.safetensors", "--to", "mmseg", "--overwrite"), "OUT must be another place than IN"),
        (("model", "there.pth", "--to", "mmseg"), "give --overwrite"),
        (("model", "there.pth/x.pth", "--to", "mmseg"), "there.pth is a file; choose another place"),
        (("model", "", "--to", "mmseg"), "OUT must end in"),
        (("model", ".", "--to", "transformers"), "OUT must be another folder than the one you are in"),
        (("model", "a" * 300 + ".pth", "--to", "mmseg"), "cannot be written (File name too long)"),
        (("model", "out.ckpt", "--to", "toolkit", "--classes", "absent.txt"), "absent.txt"),
        (("model", "out.ckpt", "--to", "toolkit", "--classes", "ade20k"), "got 150 names"),
        (("model", "out.pth", "--to", "mmseg", "--prefix", "teacher"), "prefix must be"),
    ],
)
def test_what_cannot_be_done_is_said_in_a_line(folder, arguments, told):
    Path("there.pth").write_text("old")
    with pytest.raises(SystemExit) as end:
        main(arguments)
    assert str(end.value.code).startswith("error: ")
    assert told in str(end.value.code)
    assert "\n" not in str(end.value.code)
    assert sorted(path.name for path in folder.iterdir()) == ["model", "there.pth"]
    assert Path("there.pth").read_text() == "old"


def test_overwriting_replaces(folder):
    Path("there.pth").write_text("old")
    main(["model", "there.pth", "--to", "timm", "--overwrite"])
    assert "patch_embed.proj.weight" in torch.load("there.pth", weights_only=True)
    for _ in range(2):
        main(["model", "hub", "--to", "transformers", "--overwrite"])
    assert len(list(Path("hub").iterdir())) == 3


def test_a_reader_of_the_list_may_stop_early():
    reading, writing = os.pipe()
    os.close(reading)
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "src.convert_weights", "--list"]
    result = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, env=environment, timeout=100)
    os.close(writing)
    assert (result.returncode, result.stderr) == (0, b"")
