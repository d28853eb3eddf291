"""Folders of a model that are written while something goes wrong, or into a place that is no plain one."""

import os
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch
from torch import nn

from src.classes import ClassList
from src.inference.checkpoint import read_checkpoint
from src.models import Segmenter
from src.models.pretrained import CARD, write_tensors
from src.preprocessing import Preprocessing
from tests.models.random_weights import randomise


@pytest.fixture
def model(tiny_segmenter):
    return randomise(tiny_segmenter(num_classes=3))


@pytest.fixture
def folder(model, tmp_path):
    return model.save_pretrained(tmp_path / "saved", ClassList.from_names(["sky", "tree", "road"]), Preprocessing())


def same(first: nn.Module, second: nn.Module) -> bool:
    one, other = first.state_dict(), second.state_dict()
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


def killed(work) -> None:
    """Does work in a process of its own, which ends by SIGKILL."""
    process = os.fork()
    if not process:
        try:
            work()
        finally:
            os._exit(1)
    assert os.waitpid(process, 0)[1] == signal.SIGKILL


def kill(*args, **kwargs):
    os.kill(os.getpid(), signal.SIGKILL)


def test_a_killed_save_leaves_the_folder_as_it_was(model, folder, tiny_segmenter, monkeypatch):
    with monkeypatch.context() as patched:
        patched.setattr("src.models.pretrained.json.dumps", kill)
        killed(lambda: tiny_segmenter(num_classes=5).save_pretrained(folder))
    assert len(list(folder.parent.iterdir())) == 2
    assert same(Segmenter.from_pretrained(folder), model)
    model.save_pretrained(folder)
    assert list(folder.parent.iterdir()) == [folder]


@pytest.mark.parametrize("again", ["read", "labels", "saved"])
def test_a_save_that_is_killed_while_the_folder_is_away_loses_nothing(
    model, folder, tiny_segmenter, monkeypatch, again
):
    rename = Path.replace
    with monkeypatch.context() as patched:
        patched.setattr(Path, "replace", lambda path, to: kill() if path.suffix == ".part" else rename(path, to))
        killed(lambda: tiny_segmenter(num_classes=5).save_pretrained(folder))
    assert not folder.exists()
    if again == "read":
        assert same(Segmenter.from_pretrained(folder), model)
    elif again == "labels":
        assert same(read_checkpoint(folder).build(), model)
    else:
        model.save_pretrained(folder)
        assert list(folder.parent.iterdir()) == [folder]


def test_threads_save_into_one_folder_one_after_another(model, folder, monkeypatch):
    def write(*args):
        running.append(1)
        most.append(len(running))
        time.sleep(0.05)
        write_tensors(*args)
        running.pop()

    running, most = [], []
    monkeypatch.setattr("src.models.pretrained.write_tensors", write)
    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(lambda _: model.save_pretrained(folder), range(4))) == [folder] * 4
    assert most == [1] * 4
    assert list(folder.parent.iterdir()) == [folder]
    assert same(Segmenter.from_pretrained(folder), model)


def test_the_working_folder_is_not_replaced(model, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "link").symlink_to(tmp_path)
    for folder in (".", "", tmp_path, "link"):
        with pytest.raises(ValueError, match="must be another than the one in which this program runs"):
            model.save_pretrained(folder)
    model.save_pretrained("street")
    assert "# street" in Path("street", CARD).read_text()


def test_a_link_to_a_folder_stays_one(model, folder, tiny_segmenter):
    link = folder.with_name("link")
    link.symlink_to(folder)
    other = randomise(tiny_segmenter(num_classes=5), seed=1)
    other.save_pretrained(link)
    assert link.is_symlink()
    assert same(Segmenter.from_pretrained(folder), other)
