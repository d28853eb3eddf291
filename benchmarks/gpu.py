"""Time and memory of our model and of transformers' UPerNet-Swin on one GPU, from the same weights, in one process.

    bash benchmarks/gpu.sh

Outputs are compared before anything is timed. The sides take turns; a figure is the median over the rounds, a ratio the
median of the rounds' ratios, above 1 where ours is faster. What does not fit the time budget is skipped and said so.
Memory is the allocator's peak above what stood there before: for a training step above weights and optimizer state.
"""

import argparse
import json
import signal
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any, NamedTuple

import torch
import transformers
from gpu_attention import attention_errors
from gpu_models import CLASSES, Side, makers, ours

from src.measurement.transformers_model import transformers_model

HALVES = {"bf16": torch.bfloat16, "fp16": torch.float16}
TOLERANCE = {"float32": 1e-3, "tf32": 3e-2, "bf16": 0.3, "fp16": 0.1}
"""Largest difference of logits, relative to the largest logit, beyond which the two are not the same function."""
EAGER_SECONDS, COMPILED_SECONDS = 8.0, 90.0
GRACE = 30.0
"""Seconds after the budget's end in which a case that has begun may still be done."""


class Case(NamedTuple):
    model: str
    precision: str
    compiled: bool
    work: str
    batch: int

    def __str__(self) -> str:
        return (
            f"{self.model:6}{self.precision:8}{'compiled' if self.compiled else 'eager':9}{self.work:10}{self.batch:3}"
        )


class Budget:
    """The seconds that are left; a compiled case is expected to take as long as the longest one yet."""

    def __init__(self, seconds: float) -> None:
        self.end = time.monotonic() + seconds
        self.expected = {False: EAGER_SECONDS, True: COMPILED_SECONDS}
        self.seen: dict[bool, float] = {}

    def left(self) -> float:
        return self.end - time.monotonic()

    def allows(self, case: Case) -> bool:
        return self.left() > 1.2 * self.seen.get(case.compiled, self.expected[case.compiled])

    def note(self, case: Case, seconds: float) -> None:
        self.seen[case.compiled] = max(seconds, self.seen.get(case.compiled, 0.0))


def main(argv: Sequence[str] | None = None) -> int:
    options = arguments().parse_args(argv)
    if options.device == "cuda" and not torch.cuda.is_available():
        print("no GPU is here: torch.cuda.is_available() is false; nothing was measured")
        return 1
    budget, device = Budget(options.budget), torch.device(options.device)
    print(f"{machine(device)}, {options.size}x{options.size} pixels, {CLASSES} classes", flush=True)
    attention = attention_errors(device)
    print("\n".join(str(error) for error in attention), flush=True)
    results, models = [], {}
    for case in cases(options):
        if not budget.allows(case):
            results.append(say({"case": case._asdict(), "skipped": f"{budget.left():.0f} s are left"}, case))
            continue
        if case.model not in models:
            models.clear()
            built = ours(case.model)
            models[case.model] = (built.to(device), transformers_model(built).eval().to(device))
        start = time.monotonic()
        with limited(budget.left() + GRACE):
            results.append(say(tried(case, *models[case.model], device, options), case))
        budget.note(case, time.monotonic() - start)
    told = {"machine": machine(device), "size": options.size, "attention": [e._asdict() for e in attention]}
    options.json.parent.mkdir(parents=True, exist_ok=True)
    options.json.write_text(json.dumps(told | {"cases": results}, indent=1) + "\n")
    wrong = [error for error in attention if not error.fits] or [each for each in results if "failed" in each]
    return 2 if wrong else 0


def arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda", help="cpu is for trying the script")
    parser.add_argument("--size", type=int, default=512, help="height and width in pixels")
    parser.add_argument("--rounds", type=int, default=5, help="turns of each side")
    parser.add_argument("--model", nargs="+", default=["tiny", "base"], help="tiny, small, base, large or nano")
    parser.add_argument("--precision", nargs="+", choices=TOLERANCE, default=list(TOLERANCE)[::-1])
    parser.add_argument("--batch", type=int, nargs="+", default=[1, 16], help="of label maps; training takes 2 for 1")
    parser.add_argument("--no-compile", action="store_true", help="leave torch.compile out")
    parser.add_argument("--budget", type=float, default=430, help="seconds for everything")
    parser.add_argument("--json", type=Path, default=Path("runs/gpu.json"), help="file for the figures")
    return parser


def cases(options: argparse.Namespace) -> list[Case]:
    """The most telling first, for the last ones may not fit the budget."""
    order = [p for p in ("bf16", "float32", "tf32", "fp16") if p in options.precision]
    works = [("labels", batch) for batch in options.batch] + [("training", max(2, batch)) for batch in options.batch]
    first, *others = options.model
    eager = [Case(first, precision, False, *work) for precision in order for work in works]
    compiled = [] if options.no_compile else [Case(first, precision, True, *w) for precision in order for w in works]
    further = [Case(name, order[0], False, *work) for name in others for work in works]
    return [*eager, *compiled[: len(works)], *further, *compiled[len(works) :]]


class OutOfTime(BaseException):
    """Not an Exception, which a compiler would take for its own."""


@contextmanager
def limited(seconds: float) -> Iterator[None]:
    """Raises OutOfTime in what takes longer."""

    def stop(*_: Any) -> None:
        raise OutOfTime(f"stopped after {seconds:.0f} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def tried(case: Case, model: Any, peer: Any, device: torch.device, options: argparse.Namespace) -> dict[str, Any]:
    try:
        return {"case": case._asdict()} | measured(case, model, peer, device, options)
    except OutOfTime as error:
        return {"case": case._asdict(), "skipped": str(error)}
    except torch.OutOfMemoryError as error:
        return {"case": case._asdict(), "skipped": f"out of memory: {str(error).splitlines()[0]}"}
    except Exception as error:  # the other cases are still worth having
        return {"case": case._asdict(), "failed": f"{type(error).__name__}: {str(error).splitlines()[:1]}"}
    finally:
        torch.compiler.reset()
        if device.type == "cuda":
            torch.cuda.empty_cache()


def measured(case: Case, model: Any, peer: Any, device: torch.device, options: argparse.Namespace) -> dict[str, Any]:
    tf32 = case.precision == "tf32"
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = tf32
    generator = torch.Generator().manual_seed(1)
    shape = (case.batch, 3, options.size, options.size)
    images = torch.randn(shape, generator=generator).to(device)
    masks = torch.randint(CLASSES, (case.batch, *shape[2:]), generator=generator).to(device)
    graphs = device.type == "cuda" and case.work == "labels" and case.compiled
    works: dict[str, Callable[[], Any]] = {}
    result: dict[str, Any] = {"difference": {}}
    expected = None
    for name, make in makers(model, peer, case.compiled, graphs).items():
        side = make()
        work, value = prepared(side, case, images, masks, device)
        expected = value if expected is None else expected
        result["difference"][name] = difference = relative(value, expected)
        if not difference <= TOLERANCE[case.precision]:
            raise ValueError(f"{name} must give what transformers gives, got a relative difference of {difference:.1e}")
        works[name] = work
    return result | turns(works, device, options.rounds)


def prepared(side: Side, case: Case, images: Any, masks: Any, device: torch.device) -> tuple[Callable[[], Any], Any]:
    """The work of a side, which has been done once, and the first outcome: logits, or the loss."""
    half = HALVES.get(case.precision)

    def casting() -> Any:
        return torch.autocast(device.type, half) if half else nullcontext()

    if case.work == "labels":

        @torch.inference_mode()
        def label() -> None:
            with casting():
                side.labels(images)

        with torch.inference_mode(), casting():
            value = side.logits(images).float()
        label()
        return label, value
    side.model.train()
    fused = {"fused": True} if device.type == "cuda" else {}
    optimizer = torch.optim.AdamW(side.model.parameters(), lr=6e-5, weight_decay=0.01, **fused)
    scaler = torch.amp.GradScaler(device.type, enabled=half == torch.float16)

    def step() -> Any:
        with casting():
            loss = side.loss(images, masks)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad(set_to_none=True)
        return loss.detach()

    return step, step()


def relative(value: Any, expected: Any) -> float:
    return float((value - expected).abs().max() / expected.abs().max())


def turns(works: dict[str, Callable[[], Any]], device: torch.device, rounds: int) -> dict[str, Any]:
    """Milliseconds, ratios to transformers and peak MiB of each side."""
    repeats = {name: max(1, min(20, round(0.15 / once(work, device)))) for name, work in works.items()}
    times: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(rounds):
        for name, work in works.items():
            times[name].append(once(work, device, repeats[name]))
    peers = times["transformers"]
    ratios = {name: [p / own for p, own in zip(peers, values, strict=True)] for name, values in times.items()}
    return {
        "ms": {name: 1e3 * statistics.median(values) for name, values in times.items()},
        "ratio": {name: statistics.median(values) for name, values in ratios.items()},
        "ratio_range": {name: [min(values), max(values)] for name, values in ratios.items()},
        "peak_mib": {name: peak(work, device) for name, work in works.items()},
    }


def once(work: Callable[[], Any], device: torch.device, repeats: int = 1) -> float:
    synchronised(device)
    start = time.perf_counter()
    for _ in range(repeats):
        work()
    synchronised(device)
    return (time.perf_counter() - start) / repeats


def synchronised(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize()


def peak(work: Callable[[], Any], device: torch.device) -> float | None:
    if device.type != "cuda":
        return None
    synchronised(device)
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    work()
    synchronised(device)
    return (torch.cuda.max_memory_allocated() - before) / 2**20


def say(result: dict[str, Any], case: Case) -> dict[str, Any]:
    for word in ("skipped", "failed"):
        if word in result:
            print(f"{case}  {word}: {result[word]}", flush=True)
    for name, ms in result.get("ms", {}).items():
        low, high = result["ratio_range"][name]
        memory = "" if result["peak_mib"][name] is None else f"{result['peak_mib'][name]:9.0f} MiB"
        print(
            f"{case}  {name:26}{ms:10.2f} ms  x{result['ratio'][name]:5.2f} ({low:.2f}..{high:.2f}){memory}"
            f"  differs by {result['difference'][name]:.0e}",
            flush=True,
        )
    return result


def machine(device: torch.device) -> str:
    name = torch.cuda.get_device_name() if device.type == "cuda" else "CPU"
    versions = f"torch {torch.__version__}, transformers {transformers.__version__}"
    return f"{name}, {versions}, {time.strftime('%Y-%m-%d')}"


if __name__ == "__main__":
    sys.exit(main())
