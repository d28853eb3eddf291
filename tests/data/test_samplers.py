import itertools

import pytest

from src.data.samplers import EvaluationSampler, IterationSampler


def test_sample_n_is_place_n_mod_N_of_epoch_n_over_N():
    keys = list(IterationSampler(num_images=5, num_samples=13, seed=3))
    assert [epoch for epoch, _ in keys] == [0] * 5 + [1] * 5 + [2] * 3
    assert sorted(index for _, index in keys[:5]) == list(range(5))
    assert sorted(index for _, index in keys[5:10]) == list(range(5))
    assert [index for _, index in keys[:5]] != [index for _, index in keys[5:10]]


def test_order_follows_from_the_seed():
    first, again, other = (list(IterationSampler(20, 40, seed)) for seed in (1, 1, 2))
    assert first == again
    assert first != other


def test_a_small_set_fills_a_large_pass():
    assert len(list(IterationSampler(num_images=1, num_samples=7, seed=0))) == 7


@pytest.mark.parametrize("world_size", [2, 3])
def test_processes_share_the_row_without_repeating(world_size: int):
    whole = list(IterationSampler(10, 12, seed=0))
    parts = [list(IterationSampler(10, 12 // world_size, 0, rank, world_size)) for rank in range(world_size)]
    assert list(itertools.chain.from_iterable(zip(*parts, strict=True))) == whole


def test_passes_continue_the_row():
    sampler = IterationSampler(num_images=5, num_samples=6, seed=0)
    assert len(sampler) == 6
    row = list(IterationSampler(num_images=5, num_samples=18, seed=0))
    for epoch in range(3):
        sampler.set_epoch(epoch)
        assert list(sampler) == row[6 * epoch : 6 * epoch + 6]


def test_a_started_pass_is_finished_once_and_survives_set_epoch():
    sampler = IterationSampler(num_images=5, num_samples=6, seed=0)
    sampler.set_epoch(1)
    whole = list(sampler)
    sampler.start_at(1, 4)
    sampler.set_epoch(1)
    assert list(sampler) == whole[4:]
    assert list(sampler) == whole
    sampler.start_at(1, 4)
    sampler.set_epoch(2)
    assert len(list(sampler)) == 6


@pytest.mark.parametrize("world_size", [1, 2, 3, 9])
def test_every_image_is_evaluated_once(world_size: int):
    parts = [EvaluationSampler(7, rank, world_size) for rank in range(world_size)]
    assert sorted(itertools.chain.from_iterable(parts)) == list(range(7))
    assert [len(part) for part in parts] == [len(list(part)) for part in parts]
