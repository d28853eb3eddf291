"""What reading and varying training images costs, step by step on one thread, and what loaders of several workers give.

    python benchmarks/input_pipeline.py --config ade20k.yaml --images photos --masks masks
    python benchmarks/input_pipeline.py --draw 20 --size 2000x3000 --crop 512 --resize 2048x512 --workers 1

Every step is timed where it happens, inside the data set that training reads. On one thread the thread's own processor
time counts, so that other programs do not, nor does a slow disk; for workers it is the time that passes.
"""

import argparse
import functools
import json
import platform
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from unittest import mock

sys.path.insert(0, str(Path(__file__).parents[1]))

import albumentations as A
import cv2
import numpy as np
import torch
import yaml
from PIL import Image
from torch.utils.data import DataLoader

from src.classes import ClassList
from src.data import training_dataset
from src.data.batch import collate_training
from src.data.labels import LabelEncoder
from src.data.loader import loader_options, num_cores
from src.data.pairs import Pair, match_pairs
from src.data.source import Source
from src.data.training_dataset import TrainingDataset
from src.data.transforms import BalancedCrop, PhotometricDistortion, RandomScale, RecipeAugmentation, TrainingTransform
from src.preprocessing import Preprocessing

CONFIGS = Path(__file__).parents[1] / "configs"
STEPS = {
    "read image": (TrainingDataset, "_image"),
    "read mask": (Source, "labels"),
    "class indices": (LabelEncoder, "__call__"),
    "scale": (RandomScale, "__call__"),
    "crop": (BalancedCrop, "__call__"),
    "flip": (A.HorizontalFlip, "__call__"),
    "colours": (PhotometricDistortion, "__call__"),
    "normalise": (Preprocessing, "normalise"),
    "pad": (training_dataset, "padded"),
}


@dataclass(frozen=True)
class Recipe:
    crop: tuple[int, int]
    resize: tuple[int, int] | None
    draft: bool
    batch: int
    augmentation: RecipeAugmentation


def main(argv: Sequence[str] | None = None) -> dict[str, Any]:
    options = arguments().parse_args(argv)
    cv2.setNumThreads(0)
    torch.set_num_threads(1)
    recipe = recipe_of(options)
    with tempfile.TemporaryDirectory() as folder:
        pairs = drawn(Path(folder), options.draw, options.size) if options.draw else found(options)
        dataset = dataset_of(pairs, recipe)
        result = {"machine": machine(), "recipe": asdict(recipe), "images": len(pairs), "samples": options.samples}
        result |= measured(dataset, pairs, recipe, options)
    result |= conclusions(result, options)
    print(table(result), flush=True)
    if options.json:
        options.json.write_text(json.dumps(result, indent=1) + "\n")
    return result


def arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--config", help="config whose data section gives crop, resize, draft, batch and augmentation")
    parser.add_argument("--images", type=Path, help="folder of images")
    parser.add_argument("--masks", type=Path, help="folder of masks of bytes, by the same names")
    parser.add_argument("--draw", type=int, default=0, metavar="N", help="draw N photographs and masks instead")
    parser.add_argument("--size", type=sizes, default=(2000, 3000), metavar="HxW", help="of drawn photographs")
    parser.add_argument("--crop", type=int, help="pixels; default 512, or the config's")
    parser.add_argument("--resize", help="long and short side such as 2048x512, or none; default the config's, or none")
    parser.add_argument("--draft", action=argparse.BooleanOptionalAction, help="decode JPEGs at a part of their size")
    parser.add_argument("--workers", type=int, nargs="*", default=[1, 2, 4], help="worker counts to try; none to skip")
    parser.add_argument("--samples", type=int, default=40, help="samples for each figure")
    parser.add_argument("--rounds", type=int, default=5, help="rounds, of which the median counts")
    parser.add_argument("--step-seconds", type=float, help="what a training step takes on this machine")
    parser.add_argument("--step-images", type=int, default=2, help="images in that step")
    parser.add_argument("--consumer", type=float, default=100, help="images per second of the GPU to feed")
    parser.add_argument("--json", type=Path, help="file for the figures")
    return parser


def sizes(text: str) -> tuple[int, int]:
    first, second = (int(part) for part in text.lower().split("x"))
    return first, second


def recipe_of(options: argparse.Namespace) -> Recipe:
    data: dict[str, Any] = {}
    if options.config:
        path = Path(options.config)
        path = path if path.is_file() else CONFIGS / path
        data = yaml.safe_load(path.read_text()).get("data", {}).get("init_args", {})
    crop = options.crop or data.get("crop_size", 512)
    resize = data.get("preprocessing", {}).get("resize")
    if options.resize:
        resize = None if options.resize == "none" else sizes(options.resize)
    return Recipe(
        crop=(crop, crop) if isinstance(crop, int) else tuple(crop),
        resize=tuple(resize) if resize else None,
        draft=data.get("draft", True) if options.draft is None else options.draft,
        batch=data.get("batch_size", 2),
        augmentation=RecipeAugmentation(**data.get("augmentation", {})),
    )


def found(options: argparse.Namespace) -> Sequence[Pair]:
    if not (options.images and options.masks):
        sys.exit("--images and --masks must be given together, or --draw N; see --help")
    return match_pairs(options.images, options.masks)


def drawn(folder: Path, count: int, size: tuple[int, int]) -> Sequence[Pair]:
    """Photographs of soft blots with the noise of a camera, about as hard to compress as real ones."""
    for kind in ("images", "masks"):
        (folder / kind).mkdir()
    height, width = size
    for index in range(count):
        random = np.random.default_rng(index)
        blots = random.integers(0, 256, (max(1, height // 50), max(1, width // 50), 3), dtype=np.uint8)
        pixels = cv2.resize(blots, (width, height), interpolation=cv2.INTER_CUBIC).astype(np.int16)
        pixels += random.integers(-12, 13, pixels.shape, dtype=np.int16)
        picture = Image.fromarray(np.clip(pixels, 0, 255).astype(np.uint8))
        picture.save(folder / "images" / f"{index:03d}.jpg", quality=90)
        regions = random.integers(0, 150, (max(1, height // 100), max(1, width // 100)), dtype=np.uint8)
        mask = cv2.resize(regions, (width, height), interpolation=cv2.INTER_NEAREST)
        Image.fromarray(mask).save(folder / "masks" / f"{index:03d}.png")
    return match_pairs(folder / "images", folder / "masks")


def dataset_of(pairs: Sequence[Pair], recipe: Recipe) -> TrainingDataset:
    source = Source(encoder=LabelEncoder(ClassList.from_names([f"value {value}" for value in range(255)])))
    preprocessing = Preprocessing(resize=recipe.resize)
    transform = TrainingTransform(recipe.augmentation, preprocessing, recipe.crop, seed=0)
    return TrainingDataset(pairs, [source], preprocessing, transform, recipe.crop, recipe.draft)


def measured(
    dataset: TrainingDataset, pairs: Sequence[Pair], recipe: Recipe, options: argparse.Namespace
) -> dict[str, Any]:
    """Seconds an image of each step and of the whole, on one thread; samples a second of each number of workers."""
    keys = [(sample // len(pairs), sample % len(pairs)) for sample in range(options.samples)]
    rounds: dict[str, list[float]] = defaultdict(list)
    steps: dict[str, list[float]] = defaultdict(list)
    loaders: dict[int, list[float]] = defaultdict(list)
    dataset[keys[0]]
    for _ in range(options.rounds):
        rounds["plain decode"].append(seconds(lambda: [plain(pairs[index].image) for _, index in keys]) / len(keys))
        start = time.perf_counter()
        [plain(pairs[index].image) for _, index in keys]
        rounds["plain decode, as time passes"].append((time.perf_counter() - start) / len(keys))
        rounds["sample"].append(seconds(lambda: [dataset[key] for key in keys]) / len(keys))
        with clocked(STEPS) as spent:
            start = time.thread_time()
            items = [dataset[key] for key in keys]
            whole = time.thread_time() - start
        spent["read mask"] -= spent["class indices"]
        spent["the rest"] = whole - sum(spent.values())
        for step, total in spent.items():
            steps[step].append(total / len(keys))
        batches = [items[start : start + recipe.batch] for start in range(0, len(items), recipe.batch)]
        steps["collate"].append(seconds(lambda made=batches: [collate_training(batch) for batch in made]) / len(keys))
        for workers in options.workers:
            loaders[workers].append(loader_rate(dataset, keys, recipe, workers))
    median = statistics.median
    return {
        "plain_decode_s": median(rounds["plain decode"]),
        "plain_decode_passing_s": median(rounds["plain decode, as time passes"]),
        "sample_s": median(rounds["sample"]),
        "steps_s": {name: median(values) for name, values in steps.items()},
        "loader_images_per_s": {str(workers): median(values) for workers, values in loaders.items()},
    }


def plain(path: Path) -> np.ndarray:
    with Image.open(path) as image:
        return np.asarray(image.convert("RGB"))


def seconds(work: Any) -> float:
    start = time.thread_time()
    work()
    return time.thread_time() - start


@contextmanager
def clocked(steps: dict[str, tuple[Any, str]]) -> Iterator[dict[str, float]]:
    """The seconds that each step takes while this lasts."""
    spent: dict[str, float] = defaultdict(float)

    def timing(name: str, work: Any) -> Any:
        @functools.wraps(work)
        def timed(*args: Any, **kwargs: Any) -> Any:
            start = time.thread_time()
            try:
                return work(*args, **kwargs)
            finally:
                spent[name] += time.thread_time() - start

        return timed

    with ExitStack() as stack:
        for name, (owner, attribute) in steps.items():
            stack.enter_context(mock.patch.object(owner, attribute, timing(name, getattr(owner, attribute))))
        yield spent


def loader_rate(dataset: TrainingDataset, keys: Sequence[tuple[int, int]], recipe: Recipe, workers: int) -> float:
    """Samples a second after the first batch, which waits for the workers to start."""
    loader = DataLoader(
        dataset,
        batch_size=recipe.batch,
        sampler=[*keys[: recipe.batch], *keys],
        collate_fn=collate_training,
        **loader_options(workers, seed=0, persistent=False),
    )
    batches = iter(loader)
    next(batches)
    start = time.perf_counter()
    taken = sum(len(batch["names"]) for batch in batches)
    return taken / (time.perf_counter() - start)


def machine() -> dict[str, Any]:
    names = [line.split(":")[1].strip() for line in cpu_lines() if line.startswith("model name")]
    return {
        "cpu": names[0] if names else platform.processor(),
        "cores": num_cores(),
        "date": time.strftime("%Y-%m-%d"),
        "torch": torch.__version__,
        "opencv": cv2.__version__,
        "pillow": Image.__version__,
        "command": "python " + " ".join(["benchmarks/input_pipeline.py", *sys.argv[1:]]),
    }


def cpu_lines() -> list[str]:
    path = Path("/proc/cpuinfo")
    return path.read_text().splitlines() if path.is_file() else []


def conclusions(result: dict[str, Any], options: argparse.Namespace) -> dict[str, Any]:
    rate = 1 / result["sample_s"]
    decode = result["plain_decode_s"]
    told = {
        "images_per_s_one_thread": rate,
        "cores_for_consumer": options.consumer / rate,
        "share_of_plain_decode": rate * decode,
    }
    if "1" in result["loader_images_per_s"]:
        told["share_of_plain_decode_one_worker"] = result["loader_images_per_s"]["1"] * result["plain_decode_passing_s"]
    if options.step_seconds:
        told["times_a_training_step"] = rate * options.step_seconds / options.step_images
    return told


def table(result: dict[str, Any]) -> str:
    lines = [f"{'plain decode':28}{1e3 * result['plain_decode_s']:9.2f} ms an image"]
    lines += [f"  {name:26}{1e3 * value:9.2f}" for name, value in result["steps_s"].items()]
    lines += [f"{'whole sample':28}{1e3 * result['sample_s']:9.2f}"]
    lines += [f"{f'{n} workers':28}{rate:9.1f} images/s" for n, rate in result["loader_images_per_s"].items()]
    for name in ("images_per_s_one_thread", "share_of_plain_decode", "share_of_plain_decode_one_worker",
                 "cores_for_consumer", "times_a_training_step"):  # fmt: skip
        if name in result:
            lines.append(f"{name.replace('_', ' '):34}{result[name]:9.2f}")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
