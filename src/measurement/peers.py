"""Who takes part in a measurement, by name."""

import importlib
import importlib.util

from src.measurement.contender import Contender
from src.measurement.options import Options
from src.measurement.ours import Ours
from src.models import Segmenter

_MODULES = {"transformers": "transformers", "torchvision": "torchvision", "smp": "segmentation_models_pytorch"}
_PACKAGES = {"transformers": "transformers", "torchvision": "torchvision", "smp": "segmentation-models-pytorch"}

OURS = ("ours, exact", "ours, fast")


def names(options: Options) -> list[str]:
    """Who takes part, ours first; each library twice, as its users run it and tuned."""
    ours = list(OURS) if options.numerics == "both" else [f"ours, {options.numerics}"]
    return [*ours, *(f"{peer}{how}" for peer in options.against for how in ("", ", tuned"))]


def check_installed(options: Options) -> None:
    """Sees that the libraries to compare with are there.

    Raises:
        ValueError: one is not.
    """
    for peer in options.against:
        if importlib.util.find_spec(_MODULES[peer]) is None:
            raise ValueError(
                f"--against {peer} needs a package that is not installed: pip install {_PACKAGES[peer]}; or leave "
                f"{peer} out."
            )


def build(name: str, options: Options, model: Segmenter) -> Contender:
    """One who takes part.

    Args:
        name: one of ``names``.
        options: what is measured.
        model: ours, whose weights are taken where the other has the same function.

    Raises:
        ValueError: the library has no such model, or there are no such numerics.
    """
    who, _, how = name.partition(", ")
    if who == "ours":
        return Ours(options, model, how)
    module = importlib.import_module(f"src.measurement.{who}_peer")
    peer: type[Contender] = getattr(module, who.capitalize())
    return peer(options, model, how == "tuned")
