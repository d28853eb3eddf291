"""Whole predict jobs: stopped, gone on with, in another order, in two processes."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from lightning.pytorch import Trainer
from PIL import Image
from small_jobs import draw_images, run_job, small_task, written

from src.files import written_beside
from src.preprocessing import Preprocessing

ROOT = Path(__file__).parents[2]
SIZES = {"0.png": (40, 60), "a/1.png": (97, 33), "a/2.png": (33, 97), "b/1.png": (64, 64), "4.png": (5, 7)}


def start(devices: int, seconds: float, *folders: Path) -> subprocess.Popen[str]:
    arguments = [str(devices), str(seconds), *map(str, folders)]
    command = [sys.executable, "-W", "ignore", str(Path(__file__).with_name("small_jobs.py")), *arguments]
    environment = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def times(output: Path) -> dict[str, int]:
    return {path.relative_to(output).as_posix(): path.stat().st_mtime_ns for path in output.rglob("*.png")}


@pytest.fixture
def images(tmp_path: Path) -> Path:
    return draw_images(tmp_path / "images", SIZES)


@pytest.fixture
def whole(images: Path, tmp_path: Path) -> dict[str, bytes]:
    run_job(images, tmp_path / "whole")
    masks = written(tmp_path / "whole")
    assert masks.keys() == SIZES.keys()
    assert any(len(np.unique(np.asarray(Image.open(tmp_path / "whole" / name)))) > 1 for name in masks)
    return masks


def test_a_killed_job_goes_on_without_redoing_or_missing_a_mask(images, whole, tmp_path, capsys):
    output = tmp_path / "out"
    killed = start(1, 0.5, images, output)
    deadline = time.monotonic() + 100
    while len(times(output)) < 2 and time.monotonic() < deadline and killed.poll() is None:
        time.sleep(0.02)
    killed.send_signal(signal.SIGKILL)
    killed.communicate()
    before = times(output)
    assert 2 <= len(before) < len(SIZES)
    with pytest.raises(RuntimeError, match="as if killed"), written_beside(output / "a" / "1.png") as beside:
        stale = beside.with_name(beside.name.replace(str(os.getpid()), str(killed.pid)))
        stale.write_bytes(b"half")
        raise RuntimeError("as if killed")
    capsys.readouterr()
    run_job(images, output)
    assert (
        f"{len(SIZES) - len(before)} masks: {output} ({len(before)} more were there already" in capsys.readouterr().out
    )
    assert written(output) == whole
    assert {name: times(output)[name] for name in before} == before
    assert not list(output.rglob("*.part"))


def test_nothing_left_to_do_is_said_and_no_error(images, tmp_path, capsys):
    run_job(images, tmp_path / "out")
    before = times(tmp_path / "out")
    run_job(images, tmp_path / "out")
    assert f"0 masks: {tmp_path / 'out'} (5 more were there already" in capsys.readouterr().out
    assert times(tmp_path / "out") == before


def test_only_what_is_new_or_has_changed_or_lacks_its_overlay_is_made(images, tmp_path):
    output = tmp_path / "out"
    run_job(images, output)
    before = times(output)
    draw_images(images, {"new.png": (9, 9), "0.jpg": (12, 8)})
    os.utime(images / "4.png", (time.time() + 60,) * 2)
    run_job(images, output)
    after = times(output)
    assert {name for name in after if after[name] != before.get(name)} == {"new.png", "0.jpg.png", "4.png"}
    os.utime(images / "4.png", (1, 1))
    run_job(images, output, writer={"overlay": True})
    assert len(list(output.rglob("*_overlay.jpg"))) == len(after)


def test_the_same_weights_are_the_same_job_from_a_checkpoint_and_from_memory(images, tmp_path, capsys):
    task = small_task()
    trainer = Trainer(accelerator="cpu", logger=False)
    trainer.strategy.connect(task)
    trainer.save_checkpoint(tmp_path / "a.ckpt")
    run_job(images, tmp_path / "out", task)
    run_job(images, tmp_path / "out", small_task(seed=1), ckpt_path=tmp_path / "a.ckpt")
    assert "(5 more were there already" in capsys.readouterr().out
    with pytest.raises(ValueError, match=r"masks of .*a\.ckpt .* for a job of a model without a checkpoint"):
        run_job(images, tmp_path / "out", small_task(seed=1))


@pytest.mark.parametrize("other", ["weights", "model", "classes", "preprocessing", "precision"])
def test_masks_of_another_job_are_neither_kept_nor_replaced_unless_asked(images, tmp_path, other):
    changes = {
        "weights": {"task": small_task(seed=1)},
        "preprocessing": {"preprocessing": Preprocessing(mean=(0.0, 0.0, 0.0))},
        "classes": {"task": small_task(names="abd")},
        "model": {"task": small_task(padded_keys="mask")},
        "precision": {"trainer": {"precision": "bf16-mixed"}},
    }
    output = tmp_path / "out"
    run_job(images, output)
    before = times(output)
    with pytest.raises(ValueError, match=rf"masks of one model, got .*another in {other}; .*--overwrite true to redo"):
        run_job(images, output, **changes[other])
    assert times(output) == before
    run_job(images, output, writer={"overwrite": True}, **changes[other])
    run_job(images, tmp_path / "fresh", **changes[other])
    assert written(output) == written(tmp_path / "fresh")
    assert all(times(output)[name] > before[name] for name in before)


@pytest.mark.parametrize(
    "settings", [{"eval_batch_size": 2}, {"eval_batch_size": 5}, {"eval_batch_size": 3, "num_workers": 2}], ids=str
)
def test_batch_size_and_workers_change_no_mask(images, whole, tmp_path, settings):
    run_job(images, tmp_path / "out", **settings)
    assert written(tmp_path / "out") == whole


def test_the_order_of_several_sources_changes_no_mask(images, whole, tmp_path):
    sources: Sequence[Path | str] = [images / "a", images / "b", images / "0.png", f"{images}/*.png"]
    for name, given in (("forward", list(sources)), ("backward", list(reversed(sources)))):
        run_job(given, tmp_path / name, eval_batch_size=2)
        assert written(tmp_path / name) == whole


def test_two_processes_write_each_mask_once_and_stop_together(images, whole, tmp_path):
    """An odd number of images, one of them unreadable; one image; and a folder that is refused."""
    (images / "bad.png").write_bytes(b"no image")
    alone = draw_images(tmp_path / "alone", {"only.png": (20, 30)})
    (tmp_path / "refused").mkdir()
    (tmp_path / "refused" / "only.png").touch()
    jobs = [images, tmp_path / "two", alone, tmp_path / "one", alone, tmp_path / "refused"]
    process = start(2, 0, *jobs)
    printed, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors
    assert printed.count("failures: ['bad.png']") == 2
    assert printed.count("failures: []") == 2
    assert "refused: output must be a folder where only this job has written" in printed
    assert "5 masks: " in printed
    assert "1 masks: " in printed
    assert written(tmp_path / "two") == whole
    assert written(tmp_path / "one").keys() == {"only.png"}
    assert (tmp_path / "two" / "failed.txt").read_text().startswith("bad.png: ")
