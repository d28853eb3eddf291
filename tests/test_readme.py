"""Every command of the README runs, in its order, on small data, for one step."""

import functools
import os
import re
import shlex
import shutil
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from src import benchmark, convert_weights
from src.cli import SegmentationCLI
from src.inference import load_predictor
from src.models import FCNHead, Segmenter, SwinTransformer, SwinTransformerV2, UPerNetDecoder, swin_upernet
from src.weights.named import NAMED, NamedWeights
from tests.weights.files import classifier_state, saved, theirs

BRIEF = (
    "--model nano --size 32x48 --batch 2 --threads 1 --rounds 1 --memory-size 64x64 --only label_map".split()  # noqa: SIM905
)

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "README.md").read_text()
BLOCKS = re.findall(r"^```bash\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL)
COMMANDS = [line for block in BLOCKS for line in block.splitlines() if line.startswith("python -m src.")]
SMALL = {
    "fit": [
        "--model.model.encoder.embed_dim=8", "--model.model.encoder.depths=[1,1,1,1]",
        "--model.model.encoder.num_heads=[1,1,1,1]", "--model.model.decoder.channels=8", "--data.crop_size=32",
        "--trainer.max_steps=1", "--trainer.limit_val_batches=1", "--trainer.num_sanity_val_steps=0",
    ],
    "validate": ["--trainer.limit_val_batches=1"],
    "test": ["--trainer.limit_test_batches=1"],
    "predict": [],
}  # fmt: skip


@pytest.fixture(scope="module")
def folder(sample_root, tmp_path_factory):
    """A working directory in which all that the commands name exists."""
    place = tmp_path_factory.mktemp("readme")
    (place / "classes.txt").write_text("".join(f"{i} class{i}\n" for i in range(1, 9)) + "0 other\n")
    shutil.copytree(sample_root, place / "ADEChallengeData2016")
    shutil.copytree(sample_root / "images" / "training", place / "photos" / "a")
    shutil.copytree(sample_root / "annotations" / "training", place / "masks" / "a")
    before = Path.cwd()
    os.chdir(place)
    yield place
    os.chdir(before)


def with_time(word: str) -> str:
    """``runs/x/<time>/best.ckpt`` with the newest time for which there is a checkpoint."""
    before, found, after = word.partition("<time>")
    return str(sorted(Path(before).glob(f"*{after}"), key=os.path.getmtime)[-1]) if found else word


@pytest.fixture(autouse=True)
def small_weights(folder, monkeypatch):
    """A file of the small model's sizes in the place of every published one."""
    sizes = {"embed_dim": 8, "depths": (1, 1, 1, 1), "num_heads": (1, 1, 1, 1)}
    decoder = functools.partial(UPerNetDecoder, channels=8)
    model = Segmenter(SwinTransformer(**sizes), decoder, FCNHead, num_classes=150)
    files = {1: saved(folder / "v1.pth", theirs(model.state_dict(), "official"))}
    second = classifier_state(SwinTransformerV2(**sizes))
    files[2] = saved(folder / "swinv2_tiny_patch4_window8_256.pth", theirs(second, "microsoft"))

    def stand_in(name: str) -> NamedWeights | None:
        named = NAMED.get(name)
        return named and replace(named, source=str(files[2 if name.startswith("swinv2") else 1]))

    monkeypatch.setattr("src.weights.published.find_named", stand_in)


def test_commands_run_in_their_order_and_the_python_lines_behind_them(folder, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["src"])
    assert len(COMMANDS) > 10
    for command in COMMANDS:
        try:
            check_command(command)
        except (Exception, SystemExit) as error:
            error.add_note(f"the README's command: {command}")
            raise
    check_python_lines()


def check_command(command: str) -> None:
    subcommand, *words = shlex.split(command)[2:]
    subcommand = subcommand.removeprefix("src.")
    words = [with_time(word) for word in words]
    if subcommand == "convert_weights":
        convert_weights.main(words)
        assert "--list" in words or Path(words[1]).exists()
        return
    if subcommand == "benchmark":
        benchmark.main([*words, *BRIEF])
        return
    flags = SMALL[subcommand]
    if "Smp" in command:
        part = "encoder" if "SmpEncoder" in command else "decoder"
        flags = [flag for flag in flags if f"model.{part}." not in flag]
    quiet = ["--trainer.accelerator=cpu", "--trainer.enable_progress_bar=false", "--data.num_workers=0"]
    cli = SegmentationCLI(subcommand, [*words, *flags, *quiet])
    if subcommand == "fit":
        assert cli.trainer.global_step == 1
        assert Path(str(cli.trainer.log_dir), "best.ckpt").is_file()
    elif subcommand == "predict":
        assert len(list(Path("predicted/a").glob("*.png"))) == len(list(Path("photos/a").iterdir()))
    else:
        assert Path(str(cli.trainer.log_dir), "classes.csv").is_file()


def check_python_lines() -> None:
    (code,) = re.findall(r"^```python\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL)
    shutil.copy(with_time("runs/custom_masks/<time>/best.ckpt"), "best.ckpt")
    with Image.open(next(Path("photos/a").iterdir())) as picture:
        image = np.asarray(picture.convert("RGB"))
    names = {"image": image}
    exec(code, names)  # the README's own lines
    assert names["labels"].shape == image.shape[:2]
    assert torch.equal(names["labels"], load_predictor("best.ckpt")(image))


def python_block(holding: str) -> str:
    blocks = re.findall(r"^```py\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL)
    return next(block for block in blocks if holding in block)


def test_weights_load_from_python(folder, monkeypatch, capsys):
    state = {name: torch.zeros_like(value) for name, value in swin_upernet("tiny", 150).state_dict().items()}
    path = saved(folder / "tiny.pth", theirs(state, "official"))
    monkeypatch.setattr("src.weights.published.find_named", lambda name: replace(NAMED[name], source=str(path)))
    names: dict = {}
    exec(python_block("load_weights"), names)  # the README's own lines
    assert "(100% of what the layout promises)" in capsys.readouterr().out
    assert not names["model"].encoder.norm0.weight.any()


def test_the_data_set_of_ones_own_reads_its_folder(tmp_path):
    names: dict = {}
    code = python_block("class Tiles")
    exec(code, names)  # the README's own lines
    (tmp_path / "predict" / "images").mkdir(parents=True)
    Image.new("RGB", (40, 30)).save(tmp_path / "predict" / "images" / "b.png")
    for split in ("train", "val"):
        for kind, mode in (("images", "RGB"), ("masks", "L")):
            (tmp_path / split / kind).mkdir(parents=True)
            picture = Image.new(mode, (40, 30))
            picture.paste(1 if mode == "L" else (90, 120, 30), (0, 0, 20 if split == "val" else 10, 30))
            picture.save(tmp_path / split / kind / "a.png")
    data = names["Tiles"](str(tmp_path), crop_size=16, num_workers=0)
    data.setup("fit")
    assert next(iter(data.train_dataloader()))["masks"].shape == (2, 16, 16)
    assert next(iter(data.val_dataloader()))["masks"][0].shape == (30, 40)


def test_make_targets_exist():
    targets = re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    named = re.findall(r"make (\w+)", TEXT)
    assert {"demo", "test", "check"} <= set(named) <= set(targets)
