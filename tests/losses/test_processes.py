"""Two processes that label very different numbers of pixels train as one with both their images."""

from datetime import timedelta
from pathlib import Path

import pytest
import torch
from torch import distributed, multiprocessing, nn
from torch.nn.parallel import DistributedDataParallel

from src.losses import CrossEntropy, DiceLoss, OHEMCrossEntropy, TverskyLoss, WeightedSum

CRITERIA = {
    "plain": CrossEntropy(),
    "weighted": CrossEntropy(class_weights=[0.5, 2.0, 1.0]),
    "smoothed": CrossEntropy(label_smoothing=0.2),
    "hard pixels": OHEMCrossEntropy(threshold=0.3, min_kept=0),
    "dice": DiceLoss(),
    "tversky": TverskyLoss(alpha=0.3, beta=0.7, gamma=1.5, mean="labelled", log_loss=True),
    "sum": WeightedSum([CrossEntropy(), DiceLoss()], weights=[1.0, 3.0]),
}


def model():
    torch.manual_seed(0)
    return nn.Conv2d(2, 3, 3, padding=1).double()


def batch():
    generator = torch.Generator().manual_seed(1)
    images = torch.randn(2, 2, 6, 8, generator=generator, dtype=torch.float64)
    masks = torch.randint(0, 3, (2, 24, 32), generator=generator)
    masks[1, 1:] = 255  # 768 labelled pixels in one image, 32 in the other
    return images, masks


def gradient(network, criterion, images, masks):
    network.zero_grad()
    criterion(network(images), masks).backward()
    return [parameter.grad.clone() for parameter in network.parameters()]


def train(rank, folder):
    torch.set_num_threads(1)
    distributed.init_process_group(
        "gloo", init_method=f"file://{folder}/store", rank=rank, world_size=2, timeout=timedelta(seconds=60)
    )
    images, masks = (part[rank : rank + 1] for part in batch())
    network = DistributedDataParallel(model())
    results = {name: gradient(network, criterion, images, masks) for name, criterion in CRITERIA.items()}
    for name, criterion in CRITERIA.items():
        results[f"{name}, unlabelled"] = gradient(network, criterion, images, torch.full_like(masks, 255))
    if rank == 0:  # alone: outside training no process waits for another
        with torch.no_grad():
            results["alone"] = {name: loss(network.module(images), masks) for name, loss in CRITERIA.items()}
        torch.save(results, Path(folder, "results.pt"))
    distributed.barrier()
    distributed.destroy_process_group()


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    folder = tmp_path_factory.mktemp("processes")
    context = multiprocessing.spawn(train, (str(folder),), nprocs=2, join=False)
    try:
        assert context.join(timeout=90) or context.join(timeout=30), "the processes wait for each other"
    finally:
        for process in context.processes:
            process.kill()
    return torch.load(folder / "results.pt")


@pytest.mark.parametrize("name", CRITERIA)
def test_averaged_gradients_are_those_of_the_joined_batch(results, name):
    expected = gradient(model(), CRITERIA[name], *batch())
    for result, joined in zip(results[name], expected, strict=True):
        assert torch.allclose(result, joined, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", CRITERIA)
def test_nothing_labelled_anywhere_is_no_gradient(results, name):
    assert not any(part.any() for part in results[f"{name}, unlabelled"])


@pytest.mark.parametrize("name", CRITERIA)
def test_outside_training_a_process_scores_its_own_batch(results, name):
    images, masks = batch()
    expected = CRITERIA[name](model()(images[:1]), masks[:1])
    assert results["alone"][name].item() == pytest.approx(expected.item())
