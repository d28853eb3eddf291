from pathlib import Path

import numpy as np
import torch
from PIL import Image

from src.callbacks import PreparedNetwork
from tests.callbacks.small_jobs import draw_images, run_job, small_task


def numerics_of(task) -> set[str]:
    return {module.numerics for module in task.model.modules() if hasattr(module, "numerics")}


def test_the_network_of_a_job_computes_as_told_and_labels_the_same(tmp_path):
    images = draw_images(tmp_path / "in", {"a.png": (70, 90), "b.png": (33, 41)})
    tasks = {}
    for numerics in ("exact", "fast"):
        tasks[numerics] = small_task()
        PreparedNetwork(numerics).setup(None, tasks[numerics], "predict")
        run_job(images, tmp_path / numerics, tasks[numerics])
    assert [numerics_of(task) for task in tasks.values()] == [{"exact"}, {"fast"}]
    for name in ("a.png", "b.png"):
        exact, fast = (np.asarray(Image.open(Path(tmp_path, folder, name))) for folder in ("exact", "fast"))
        assert (exact == fast).mean() > 0.999


def test_a_checkpoint_does_not_tell_how_the_network_computed():
    task = small_task()
    before = task.model.settings
    PreparedNetwork("fast", channels_last=True).setup(None, task, "fit")
    assert task.model.decoder.fpn_bottleneck.conv.weight.is_contiguous(memory_format=torch.channels_last)
    assert task.model.settings == before
