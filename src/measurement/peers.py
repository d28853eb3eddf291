"""Who takes part in a measurement, by name."""

import importlib.util
from dataclasses import dataclass

from src.measurement.contender import Contender
from src.measurement.options import MEMORY_ROWS, OURS, Options
from src.measurement.ours import Ours
from src.measurement.smp_peer import Smp
from src.measurement.torchvision_peer import Torchvision
from src.measurement.transformers_peer import Transformers
from src.models import Segmenter


@dataclass(frozen=True)
class Peer:
    """A library to compare with.

    Args:
        contender: its model; nothing of the library is loaded before one is built.
        module: the name that it is imported by.
        package: the name that it is installed by.
    """

    contender: type[Transformers] | type[Torchvision] | type[Smp]
    module: str
    package: str


_PEERS = {
    "transformers": Peer(Transformers, "transformers", "transformers"),
    "torchvision": Peer(Torchvision, "torchvision", "torchvision"),
    "smp": Peer(Smp, "segmentation_models_pytorch", "segmentation-models-pytorch"),
}
_TUNED = ", tuned"


def our_names(options: Options) -> list[str]:
    """Which of ours take part."""
    return [name for numerics, name in OURS.items() if options.numerics in (numerics, "both")]


def names(options: Options, row: str | None = None) -> list[str]:
    """Who takes part, ours first; each library twice, as its users run it and tuned.

    Args:
        options: what is measured.
        row: only who has this row; None for all.
    """
    theirs = [(peer, how) for peer in options.against for how in ("", _TUNED)]
    size = options.memory_size if row == "label_map_memory" else options.size
    return our_names(options) + [
        f"{peer}{how}"
        for peer, how in theirs
        if row is None or (_has(peer, bool(how), row) and _PEERS[peer].contender.takes(size))
    ]


def tuned_names(options: Options, row: str) -> list[str]:
    """Who takes part tuned and has a row.

    Args:
        options: what is measured.
        row: the row.
    """
    return [name for name in names(options, row) if name.endswith(_TUNED)]


def check_peers(options: Options) -> None:
    """Sees that the libraries to compare with are there, and have something of what is measured.

    Raises:
        ValueError: one is not installed, has none of the rows, or does not take images of the size.
    """
    for name in options.against:
        peer = _PEERS[name]
        if importlib.util.find_spec(peer.module) is None:
            raise ValueError(
                f"--against {name} needs a package that is not installed: pip install {peer.package}; or leave {name} "
                f"out."
            )
        if not any(_has(name, True, row) for row in options.rows):
            has, asked = (", ".join(rows) for rows in (peer.contender.rows_of(True), options.rows))
            raise ValueError(f"--only must name a row that {name} has, of {has}, got {asked}; leave {name} out.")
        if not peer.contender.takes(options.size):
            raise ValueError(
                f"--size must be {peer.contender.sizes} for {name}, got {options.size[0]}x{options.size[1]}; leave "
                f"{name} out."
            )


def build(name: str, options: Options, model: Segmenter) -> Contender:
    """One who takes part.

    Args:
        name: one of ``names``.
        options: what is measured.
        model: ours, whose weights are taken where the other has the same function.

    Raises:
        ValueError: the library has no such model, or nobody has that name.
    """
    for numerics, ours in OURS.items():
        if name == ours:
            return Ours(options, model, numerics)
    peer = name.removesuffix(_TUNED)
    if peer not in _PEERS:
        raise ValueError(f"name must be one of {', '.join(names(options))}, got {name}; see names.")
    return _PEERS[peer].contender(options, model, name.endswith(_TUNED))


def _has(peer: str, tuned: bool, row: str) -> bool:
    return MEMORY_ROWS.get(row, row) in _PEERS[peer].contender.rows_of(tuned)
