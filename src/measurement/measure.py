"""Measures rows of a table, ours and the peers in turn."""

import gc
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch

from src.measurement.comparison import compared
from src.measurement.contender import Contender
from src.measurement.counts import counts
from src.measurement.inputs import draw
from src.measurement.memory_process import memory_apart
from src.measurement.options import MEMORY_ROWS, ROWS, Options, num_cores
from src.measurement.ours import build_model
from src.measurement.peers import build, check_peers, names, our_names, tuned_names
from src.measurement.rounds import alternate, table_row
from src.models import Segmenter

_MIB = 2**20
_LAYOUT_ROUNDS = 2
Say = Callable[[str], None]


def measure(options: Options, say: Say = lambda text: None) -> dict[str, Any]:
    """Counts, differences and rows, in plain types.

    Args:
        options: what is measured.
        say: told what comes next.

    Raises:
        ValueError: the model cannot be built, or a peer is not installed or has none like it.
    """
    check_peers(options)
    torch.set_num_threads(options.threads or num_cores())
    model = build_model(options)
    options = replace(options, num_classes=model.num_classes)
    say("counting")
    told: dict[str, Any] = {"counts": counts(model, options.size), "differences": {}, "rows": {}, "notes": []}
    if options.timed_rows and options.against and options.layout == "auto":
        options = _with_layout(options, model, say)
    told["options"] = options.to_dict()
    if options.timed_rows:
        contenders = {name: build(name, options, model) for name in names(options)}
        told["notes"] += [f"{name}: another function" for name, one in contenders.items() if not one.same_function]
        for row in options.timed_rows:
            _time(row, contenders, options, told, say)
        contenders.clear()
    del model
    gc.collect()
    for row in options.memory_rows:
        told["rows"][row] = _memory_row(row, options, say)
    return told


def _time(row: str, contenders: dict[str, Contender], options: Options, told: dict[str, Any], say: Say) -> None:
    able = {name: contenders[name] for name in names(options, row)}
    ours = our_names(options)
    inputs = draw(options)
    for contender in able.values():
        contender.prepare(row)
    say(f"{ROWS[row]}: {', '.join(able)}")
    workers = {name: _worker(contender, row, inputs) for name, contender in able.items()}
    done = alternate(workers, options.rounds, torch.cuda.synchronize if options.device == "cuda" else None)
    same = [name for name in able if name not in ours and able[name].same_function]
    told["differences"][row] = compared(row, done.results, ours, same)
    batch = {"training": options.training_batch, "evaluation": 1}.get(row, options.inference_batch)
    told["rows"][row] = table_row(done, ours) | {"size": list(options.size), "batch": batch}
    for name in able:  # what was measured is not lost where a later row is stopped
        say(f"  {name}: {done.spread(name).median:.3f} s{_ratios(told['rows'][row], name)}")
    for contender in able.values():
        contender.finish(row)


def _ratios(row: dict[str, Any], name: str) -> str:
    found = [f"{each[name]['median']:.2f} of {ours}" for ours, each in row["ratios"].items() if name in each]
    return f", {', '.join(found)}" if found else ""


def _worker(contender: Contender, row: str, inputs: Any) -> Callable[[], Any]:
    return lambda: contender.run(row, inputs)


def _memory_row(row: str, options: Options, say: Say) -> dict[str, Any]:
    """Peaks in MiB of ours and of the peers that have the row; a ratio below 1 says that ours takes less."""
    label_map = MEMORY_ROWS[row] == "label_map"
    sized = replace(options, size=options.memory_size, batch=1) if label_map else options
    uses = {}
    for name in names(options, row):
        say(f"{ROWS[row]}: {name}")
        uses[name] = memory_apart(name, row, sized)
        say(f"  {name}: {uses[name].peak / _MIB:.0f} MiB")
    figures = {name: {"median": use.peak / _MIB, "source": use.source} for name, use in uses.items()}
    live = {name: {"median": use.live / _MIB} for name, use in uses.items() if use.live is not None}
    return {
        "unit": "MiB",
        "ratio": "ours / theirs",
        "figures": figures,
        "ratios": _over(figures, our_names(options)),
        "live": {"figures": live, "ratios": _over(live, our_names(options))},
        "size": list(sized.size),
        "batch": sized.inference_batch if label_map else sized.training_batch,
    }


def _over(figures: dict[str, Any], ours: list[str]) -> dict[str, Any]:
    """The figure of each of ours over each of the others'."""
    others = [name for name in figures if name not in ours]
    ratios: dict[str, Any] = {}
    for name in (name for name in ours if name in figures):
        pairs = ((other, figures[name]["median"], figures[other]["median"]) for other in others)
        ratios[name] = {other: {"median": mine / max(theirs, 1e-9)} for other, mine, theirs in pairs}
    return ratios


def _with_layout(options: Options, model: Segmenter, say: Say) -> Options:
    """The options with the layout in which the first tuned peer that makes label maps is faster, or the encoder."""
    say("which memory layout suits the tuned peers")
    row, name = next((row, name) for row in ("label_map", "features") for name in tuned_names(options, row))
    tried = {layout: replace(options, layout=layout) for layout in ("contiguous", "channels_last")}
    contenders = {layout: build(name, each, model) for layout, each in tried.items()}
    for contender in contenders.values():
        contender.prepare(row)
    inputs = draw(options)
    workers = {layout: _worker(contender, row, inputs) for layout, contender in contenders.items()}
    done = alternate(workers, _LAYOUT_ROUNDS, torch.cuda.synchronize if options.device == "cuda" else None)
    return tried[min(tried, key=lambda layout: done.spread(layout).least)]
