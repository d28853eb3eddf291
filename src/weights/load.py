"""Loading published weights into a model: encoder, decoder and auxiliary head, as far as both have them."""

import re
import warnings
from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Any, Literal, cast

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from src.classes import ClassList
from src.layers.position_bias.table import ResizeMethod
from src.models import Segmenter
from src.models.compiled import plain_name, uncompiled
from src.weights.class_rows import ClassRows
from src.weights.fitting import Fitting
from src.weights.mismatch import other_function, other_sizes
from src.weights.published import PublishedWeights, read_published
from src.weights.report import WeightsReport
from src.wording import listed, nearest

Part = Literal["encoder", "decoder", "auxiliary"]

PARTS: tuple[Part, ...] = ("encoder", "decoder", "auxiliary")
_SHOWN = 3
_FEW = 0.5
_COUNTER = "num_batches_tracked"


def load_weights(
    model: nn.Module,
    path: str | PathLike[str] | Mapping[str, Any],
    *,
    strict: bool | Sequence[str] = True,
    resize: ResizeMethod = "bicubic",
    parts: Sequence[Part] = PARTS,
    classes: ClassList | None = None,
    source_classes: ClassList | None = None,
    prefix: str | None = None,
) -> WeightsReport:
    """Fills a model with published weights of any layout, and says what it did; no code in the file is run.

    A whole segmentor fills encoder, decoder and auxiliary head, a classifier the encoder. Where the model has another
    window, grid, number of channels or list of classes, the weights are adapted. The model is changed only if all fits.

    Args:
        model: a ``Segmenter``, or an encoder alone.
        path: a named weight (``python -m src.convert_weights --list``), a file, a folder, an address,
            ``hf:owner/name[@revision]`` or ``timm:name``; or a state dict.
        strict: true: all that the layout promises must be there; false: any of it may be missing; names, or beginnings
            of names: these may.
        resize: how a bias table is fitted to another window: ``bicubic`` (as the published segmentation code does),
            ``bilinear`` or ``geometric``.
        parts: the parts of the model to fill.
        classes: classes of the model's outputs; None where they are not known.
        source_classes: classes of the weights' outputs; None for what their file says.
        prefix: what stands before the names of the model that is meant, where a file holds several.

    Returns:
        What was loaded, adapted, left new and left over; printed, it is a short table.

    Raises:
        FileNotFoundError: there is no such source.
        ValueError: it cannot be fetched or read, its layout is not known, it is of another model, or less is in it than
            ``strict`` asks for.
    """
    _check_arguments(parts, strict)
    published = read_published(path, prefix)
    model = _bare(model)
    targets = _targets(model, parts)
    rows = _class_rows(model, published, parts, classes, source_classes)
    fitting = Fitting(model, published, resize, rows)
    values: dict[str, Tensor] = {}
    for name, value in published.state.items():
        if name in targets and (fitted := fitting.fitted(name, value, targets[name])) is not None:
            values[name] = fitted
    promised = [name for name in targets if _is_promised(name, published)]
    skipped = [part for part in PARTS if part not in parts and getattr(model, part, None) is not None]
    report = WeightsReport(
        source=published.source,
        layout=_described(published),
        loaded=tuple(values),
        promised=tuple(name for name in promised if rows is None or not rows.leave_out(name)),
        adapted=tuple(fitting.adapted),
        new=tuple(name for name in targets if name not in values and not name.endswith(_COUNTER)),
        new_classes=rows.new_classes if rows else (),
        left_over=(*published.left_over, *(name for name in published.state if name not in values)),
        notes=(
            *published.notes,
            *(f"the {part} was not asked for and stays as it is" for part in skipped),
            *fitting.notes,
            *(rows.notes if rows else ()),
            *other_function(model, published),
            *(f"{name}: {why}" for name, why in fitting.refused.items()),
        ),
    )
    without_place = [name for name in published.state if name not in targets and _has_place(name, targets)]
    _check(report, strict, fitting.refused, without_place, other_sizes(model, published))
    fitting.settle()
    with torch.no_grad():
        for name, value in values.items():
            targets[name].copy_(value)
    return report


def _check_arguments(parts: Sequence[Part], strict: bool | Sequence[str]) -> None:
    unknown = [parts] if isinstance(parts, str) else [part for part in parts if part not in PARTS]
    if unknown:
        raise ValueError(
            f"parts must be a list of {', '.join(PARTS)}, got {unknown[0]!r}; {nearest(unknown[0], PARTS)}."
        )
    if isinstance(strict, str):
        raise ValueError(f"strict must be true, false or a list of names, got {strict!r}; give [{strict}].")


def _bare(model: nn.Module) -> nn.Module:
    """The model without what compiles or spreads it."""
    while isinstance(model, nn.DataParallel | DistributedDataParallel):
        model = model.module
    bare: nn.Module = uncompiled(model)
    return bare


def _targets(model: nn.Module, parts: Sequence[Part]) -> dict[str, Tensor]:
    """The model's weights that may be filled, under the names they have in a segmenter that was not compiled."""
    before = "" if isinstance(model, Segmenter) else "encoder."
    named = {before + plain_name(name): value for name, value in model.state_dict(keep_vars=True).items()}
    if any(value.is_meta for value in named.values()):
        raise ValueError("model must hold values to be filled, got one on the device meta; build it on the CPU.")
    return {name: value for name, value in named.items() if name.partition(".")[0] in parts}


def _class_rows(
    model: nn.Module,
    published: PublishedWeights,
    parts: Sequence[Part],
    classes: ClassList | None,
    source_classes: ClassList | None,
) -> ClassRows | None:
    is_filled = isinstance(model, Segmenter) and {"decoder", "auxiliary"} & set(parts)
    if not is_filled or "decoder.conv_seg.weight" not in published.state:
        return None
    return ClassRows(published, cast(Segmenter, model).num_classes, classes, source_classes)


def _is_promised(name: str, published: PublishedWeights) -> bool:
    """Whether a file of this layout and kind fills a weight of the model."""
    part, _, rest = name.partition(".")
    if name.endswith(_COUNTER):
        return False
    if part == "encoder" and re.match(r"norm\d", rest):
        return published.kind == "segmentor" or name in published.state
    return any(other.startswith(f"{part}.") for other in published.state)


def _has_place(name: str, targets: Mapping[str, Tensor]) -> bool:
    """Whether the model has the part that a weight is of, so that it should have the weight too."""
    part = name.partition(".")[0]
    return not name.endswith(_COUNTER) and any(other.startswith(f"{part}.") for other in targets)


def _described(published: PublishedWeights) -> str:
    version = f", Swin V{published.version}" if published.version else ""
    return f"{published.layout} ({published.kind}{version})"


def _check(
    report: WeightsReport,
    strict: bool | Sequence[str],
    refused: Mapping[str, str],
    without_place: Sequence[str],
    sizes: Sequence[str],
) -> None:
    reasons = [f"{name}: {why}" for name, why in refused.items()]
    why = f" ({listed(reasons, _SHOWN)})" if reasons else ""
    advice = f"set {listed(sizes, 8)}, or " if sizes else ""
    if not report.loaded:
        raise ValueError(
            f"{report.source} must hold weights of this model, got none that fits{why}: the model has "
            f"{listed(report.new, 2)}, the file {listed(report.left_over, 2)}; {advice}give weights of this "
            f"architecture, or none (--model.weights null)."
        )
    allowed = () if isinstance(strict, bool) else tuple(strict)
    known = (*report.promised, *without_place)
    if unknown := [name for name in allowed if not any(other.startswith(name) for other in known)]:
        raise ValueError(
            f"strict must hold names of weights, or how they begin, got {unknown[0]!r}, as none does; "
            f"{nearest(unknown[0], known)}."
        )
    missing = [name for name in report.missing if not any(map(name.startswith, allowed))]
    odd = [name for name in without_place if not any(map(name.startswith, allowed))]
    if (missing or odd) and strict is not False:
        filled = len(report.promised) - len(report.missing)
        lacks = f"; missing are {listed(missing, _SHOWN)}" if missing else ""
        more = f"; the model has no place for {listed(odd, _SHOWN)}" if odd else ""
        left = f"; left over are {listed(report.left_over, 2)}" if report.left_over and not odd else ""
        raise ValueError(
            f"{report.source} must fill {len(report.promised)} weights of this model, got {filled}{lacks}{more}{why}"
            f"{left}; {advice}name in model.weights_options.strict what may be missing (false: anything)."
        )
    if report.coverage < _FEW:
        warnings.warn(
            f"{report.source} filled {report.coverage:.0%} of the weights that its layout promises; the model has "
            f"{listed(report.missing, 2)}, the file {listed(report.left_over, 2) or 'nothing more'}.",
            stacklevel=3,
        )
