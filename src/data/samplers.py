"""Which image comes when, on which process: endless permutations in training, every image once in evaluation."""

from collections.abc import Iterator, Sequence

import numpy as np
from torch.utils.data import Sampler

TrainingKey = tuple[int, int]
"""Epoch, which makes the augmentation, and index of the image."""

EvaluationKey = tuple[int, bool]
"""Index of the image, and whether it counts."""


class IterationSampler(Sampler[TrainingKey]):
    """An endless row of permutations of the images, of which each process takes every ``world_size``-th sample.

    Sample n is place ``n % N`` of the permutation of epoch ``n // N``, so that a small data set is repeated inside a
    batch or an epoch of the trainer instead of cutting either short. Each permutation follows from (seed, epoch).

    Args:
        num_images: number of images N.
        num_samples: how many samples one pass gives on this process.
        seed: of the permutations, 0 or more.
        rank: number of this process.
        world_size: number of processes.
    """

    def __init__(self, num_images: int, num_samples: int, seed: int, rank: int = 0, world_size: int = 1) -> None:
        self.num_images = num_images
        self.num_samples = num_samples
        self.seed = seed
        self.rank = rank
        self.world_size = world_size
        self._pass = 0
        self._taken = 0

    @property
    def position(self) -> tuple[int, int]:
        """The pass, and the samples of it already taken, where the next iteration begins."""
        return self._pass, self._taken

    def set_epoch(self, epoch: int) -> None:
        """Chooses which pass the next iteration gives; a place set by ``start_at`` in this pass is kept.

        Args:
            epoch: the trainer's epoch, that is, how many passes came before.
        """
        if epoch != self._pass:
            self.start_at(epoch, 0)

    def start_at(self, epoch: int, taken: int) -> None:
        """Chooses where the next iteration begins; the iterations after it give whole passes.

        Args:
            epoch: the trainer's epoch.
            taken: how many samples of the pass this process has taken already.
        """
        self._pass, self._taken = epoch, taken

    def __len__(self) -> int:
        return self.num_samples

    def __iter__(self) -> Iterator[TrainingKey]:
        first, self._taken = self._taken, 0
        start = self._pass * self.num_samples
        epoch, keys = -1, np.empty((0, 2), np.int64)
        for place in range(start + first, start + self.num_samples):
            sample = place * self.world_size + self.rank
            if sample // self.num_images != epoch:
                epoch = sample // self.num_images
                keys = self._keys(epoch)
            image_epoch, index = keys[sample % self.num_images].tolist()
            yield image_epoch, index

    def _keys(self, epoch: int) -> np.ndarray:
        """Epoch and image of each of the N samples of an epoch, ``(N, 2)``."""
        order = np.random.default_rng([self.seed, epoch]).permutation(self.num_images)
        return np.stack([np.full_like(order, epoch), order], axis=1)


class MixtureSampler(IterationSampler):
    """A row like that of ``IterationSampler`` in which the images' parts have shares of their own.

    Every N samples, N being the number of all images, hold the same number of each part, which is its share of N
    rounded, in random order. Inside a part every image comes before any comes again; an image that comes again does so
    with a higher epoch, so that it is augmented anew. All follows from (seed, epoch).

    Args:
        sizes: number of images of each part; the images of a part stand together, in this order.
        weights: what the shares are proportional to, above 0.
        num_samples: how many samples one pass gives on this process.
        seed: of the permutations, 0 or more.
        rank: number of this process.
        world_size: number of processes.
    """

    def __init__(
        self,
        sizes: Sequence[int],
        weights: Sequence[float],
        num_samples: int,
        seed: int,
        rank: int = 0,
        world_size: int = 1,
    ) -> None:
        super().__init__(sum(sizes), num_samples, seed, rank, world_size)
        self.sizes = sizes
        self.counts = shares(weights, self.num_images)

    def _keys(self, epoch: int) -> np.ndarray:
        parts = np.repeat(np.arange(len(self.sizes)), self.counts)
        parts = np.random.default_rng([self.seed, epoch]).permutation(parts)
        keys = np.empty((self.num_images, 2), np.int64)
        for part, (size, count) in enumerate(zip(self.sizes, self.counts, strict=True)):
            first_epoch, skipped = divmod(epoch * count, size)
            epochs = range(first_epoch, first_epoch + -(-(skipped + count) // size))
            orders = [np.random.default_rng([self.seed, each, 1 + part]).permutation(size) for each in epochs]
            row = np.stack([np.repeat(epochs, size), sum(self.sizes[:part]) + np.concatenate(orders)], axis=1)
            keys[parts == part] = row[skipped : skipped + count]
        return keys


def shares(weights: Sequence[float], total: int) -> list[int]:
    """Whole numbers that are proportional to ``weights`` but for rounding, and whose sum is ``total``.

    Args:
        weights: numbers above 0.
        total: what to share out.
    """
    exact = np.asarray(weights, np.float64) / sum(weights) * total
    counts = np.floor(exact).astype(int)
    most_lacking = np.argsort(counts - exact, kind="stable")
    counts[most_lacking[: total - counts.sum()]] += 1
    return [int(count) for count in counts]


class EvaluationSampler(Sampler[EvaluationKey]):
    """Every image once, in order; each process takes every ``world_size``-th, so that none comes twice.

    Args:
        num_images: number of images.
        rank: number of this process.
        world_size: number of processes.
        fill: whether a process with an image less than others gets one that does not count, since processes that score
            wait for one another.
    """

    def __init__(self, num_images: int, rank: int = 0, world_size: int = 1, fill: bool = False) -> None:
        self._keys = [(index, True) for index in range(rank, num_images, world_size)]
        if fill and num_images > 0 and len(self._keys) < -(-num_images // world_size):
            self._keys.append((rank % num_images, False))

    def __len__(self) -> int:
        return len(self._keys)

    def __iter__(self) -> Iterator[EvaluationKey]:
        return iter(self._keys)
