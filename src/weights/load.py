"""Loading published weights into a model: encoder, decoder and auxiliary head, as far as both have them."""

import warnings
from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Literal

import torch
from torch import Tensor, nn

from src.classes import ClassList
from src.layers.position_bias.table import ResizeMethod
from src.models import Segmenter
from src.models.compiled import plain_name
from src.weights.fitting import Fitting
from src.weights.published import PublishedWeights, read_published
from src.weights.report import WeightsReport
from src.wording import listed, nearest

Part = Literal["encoder", "decoder", "auxiliary"]

PARTS: tuple[Part, ...] = ("encoder", "decoder", "auxiliary")
_SHOWN = 3


def load_weights(
    model: nn.Module,
    path: str | PathLike[str],
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
            ``hf:owner/name[@revision]`` or ``timm:name``.
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
    if unknown := [part for part in parts if part not in PARTS]:
        raise ValueError(f"parts must be among {', '.join(PARTS)}, got {unknown[0]!r}; {nearest(unknown[0], PARTS)}.")
    published = read_published(path, prefix)
    targets = _targets(model, parts)
    fitting = Fitting(model, published, resize, classes, source_classes)
    values: dict[str, Tensor] = {}
    for name, value in published.state.items():
        if name in targets and (fitted := fitting.fitted(name, value, targets[name])) is not None:
            values[name] = fitted
    report = WeightsReport(
        source=published.source,
        layout=_described(published),
        loaded=tuple(values),
        promised=tuple(name for name in targets if _is_promised(name, published) and not fitting.starts_anew(name)),
        adapted=tuple(fitting.adapted),
        new=tuple(name for name in targets if name not in values and not name.endswith("num_batches_tracked")),
        new_classes=tuple(fitting.new_classes),
        left_over=(*published.left_over, *(name for name in published.state if name not in values)),
        notes=(*published.notes, *fitting.notes, *(f"{name}: {why}" for name, why in fitting.refused.items())),
    )
    _check(report, strict, fitting.refused)
    fitting.settle()
    with torch.no_grad():
        for name, value in values.items():
            targets[name].copy_(value)
    return report


def _targets(model: nn.Module, parts: Sequence[Part]) -> dict[str, Tensor]:
    """The model's weights that may be filled, under the names they have in a segmenter that was not compiled."""
    before = "" if isinstance(model, Segmenter) else "encoder."
    named = {before + plain_name(name): value for name, value in model.state_dict(keep_vars=True).items()}
    return {name: value for name, value in named.items() if name.partition(".")[0] in parts}


def _is_promised(name: str, published: PublishedWeights) -> bool:
    """Whether a file of this layout and kind fills a weight of the model."""
    part, _, rest = name.partition(".")
    if name.endswith("num_batches_tracked"):
        return False
    if part == "encoder":
        is_norm = rest.startswith("norm") and rest.partition(".")[0] != "norm"
        return not is_norm or any(other.startswith("encoder.norm") for other in published.state)
    return any(other.startswith(f"{part}.") for other in published.state)


def _described(published: PublishedWeights) -> str:
    version = f", Swin V{published.version}" if published.version else ""
    return f"{published.layout} ({published.kind}{version})"


def _check(report: WeightsReport, strict: bool | Sequence[str], refused: Mapping[str, str]) -> None:
    reasons = [f"{name}: {why}" for name, why in refused.items()]
    if not report.loaded:
        raise ValueError(
            f"{report.source} must hold weights of this model, got none that fits"
            f"{f' ({listed(reasons, _SHOWN)})' if reasons else ''}: the model has {listed(report.new, 2)}, the file "
            f"{listed(report.left_over, 2)}; give weights of this architecture, or none (--model.weights null)."
        )
    allowed = () if isinstance(strict, bool) else tuple(strict)
    missing = [name for name in report.missing if not name.startswith(allowed)] if allowed else list(report.missing)
    if missing and strict is not False:
        raise ValueError(
            f"{report.source} must fill {len(report.promised)} weights of this model, got "
            f"{len(report.promised) - len(report.missing)}; missing are {listed(missing, _SHOWN)}"
            f"{f' ({listed(reasons, _SHOWN)})' if reasons else ''}, left over {listed(report.left_over, 2) or 'none'}; "
            f"give the model the sizes of the weights, or name in `strict` what may be missing (false: anything)."
        )
    if report.coverage < 0.5:
        warnings.warn(
            f"{report.source} filled {report.coverage:.0%} of the weights that its layout promises; the model has "
            f"{listed(report.missing, 2)}, the file {listed(report.left_over, 2) or 'nothing more'}.",
            stacklevel=3,
        )
