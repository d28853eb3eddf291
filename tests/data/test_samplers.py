import itertools
from collections import Counter

import pytest

from src.data.samplers import EvaluationSampler, IterationSampler, MixtureSampler, shares


def test_a_process_with_an_image_less_gets_one_that_does_not_count():
    for num_images, world_size in ((1, 2), (5, 4), (7, 3), (6, 3), (1, 1)):
        parts = [list(EvaluationSampler(num_images, rank, world_size, fill=True)) for rank in range(world_size)]
        assert len({len(part) for part in parts}) == 1
        assert sorted(index for part in parts for index, counts in part if counts) == list(range(num_images))


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
    parts = [[index for index, _ in EvaluationSampler(7, rank, world_size)] for rank in range(world_size)]
    assert sorted(itertools.chain.from_iterable(parts)) == list(range(7))
    assert [len(part) for part in parts] == [len(list(part)) for part in parts]


@pytest.mark.parametrize(
    ("weights", "total", "expected"),
    [
        ([1, 1], 10, [5, 5]),
        ([2, 1], 9, [6, 3]),
        ([1, 1, 1], 10, [4, 3, 3]),
        ([0.2, 0.3, 0.5], 7, [1, 2, 4]),
        ([1, 1000], 10, [0, 10]),
        ([1e-9, 1e-9], 3, [2, 1]),
    ],
)
def test_shares_follow_the_weights_and_sum_to_the_total(weights, total, expected):
    assert shares(weights, total) == expected


def part_of(index: int, sizes: list[int]) -> int:
    return next(part for part, end in enumerate(itertools.accumulate(sizes)) if index < end)


@pytest.mark.parametrize(
    ("sizes", "weights"), [([12, 4], [1, 1]), ([3, 30, 7], [5, 1, 2.5]), ([1, 9], [9, 1]), ([4], [3])]
)
def test_every_epoch_of_a_mixture_has_the_shares_of_the_weights(sizes, weights):
    images = sum(sizes)
    row = [index for _, index in MixtureSampler(sizes, weights, 5 * images, seed=0)]
    for epoch in range(5):
        counts = Counter(part_of(index, sizes) for index in row[epoch * images : (epoch + 1) * images])
        assert [counts[part] for part in range(len(sizes))] == shares(weights, images)
        for part, weight in enumerate(weights):
            assert abs(counts[part] - images * weight / sum(weights)) < 1


@pytest.mark.parametrize("weights", [[1, 1], [7, 1], [1, 5]])
def test_all_images_of_a_part_come_before_one_comes_again_and_then_with_a_higher_epoch(weights):
    sizes = [12, 5]
    row = list(MixtureSampler(sizes, weights, num_samples=200, seed=2))
    assert len(set(row)) == len(row)
    for part, size in enumerate(sizes):
        keys = [(epoch, index) for epoch, index in row if part_of(index, sizes) == part]
        for start in range(0, len(keys) - size + 1, size):
            assert {epoch for epoch, _ in keys[start : start + size]} == {start // size}
            assert len({index for _, index in keys[start : start + size]}) == size


def test_parts_of_a_mixture_come_in_random_order_that_follows_from_the_seed():
    first, again, other = (list(MixtureSampler([8, 8], [1, 1], 32, seed)) for seed in (1, 1, 2))
    assert first == again != other
    parts = [part_of(index, [8, 8]) for _, index in first]
    assert parts[:16] != parts[16:]


@pytest.mark.parametrize("world_size", [2, 3])
def test_processes_share_a_mixture_without_repeating(world_size):
    whole = list(MixtureSampler([7, 3], [1, 2], 24, seed=0))
    parts = [list(MixtureSampler([7, 3], [1, 2], 24 // world_size, 0, rank, world_size)) for rank in range(world_size)]
    assert list(itertools.chain.from_iterable(zip(*parts, strict=True))) == whole


def test_a_mixture_goes_on_where_it_stopped():
    sampler = MixtureSampler([7, 3], [1, 2], 12, seed=0)
    row = list(MixtureSampler([7, 3], [1, 2], 36, seed=0))
    sampler.start_at(2, 5)
    sampler.set_epoch(2)
    assert list(sampler) == row[24 + 5 :]
