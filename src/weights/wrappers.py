"""From what a program saved to named tensors: which part of it holds the weights, and under which plain names."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from src.download.address import printable
from src.wording import listed

_AVERAGES = ("state_dict_ema", "model_ema", "ema_state_dict", "model_state_ema", "ema_model", "params_ema", "ema")
_WEIGHTS = (
    *("state_dict", "model_state_dict", "model_state", "model", "module", "net", "network", "weights", "params"),
    "shadow",
)
_TEACHERS = ("teacher", "teacher_state_dict")
_OTHER_COPIES = ("current_model_state", "averaging_state", "student", "student_state_dict")
_OF_TRAINING = (
    *("optimizer", "optimizers", "optimizer_states", "optimizer_state_dict", "optim", "optim_state_dict"),
    *("lr_schedulers", "lr_scheduler", "scheduler", "scheduler_state_dict", "param_schedulers", "scaler", "amp"),
    *("loss_scaler", "grad_scaler", "loops", "callbacks", "message_hub", "rng_state", "random_states"),
)
_ABOUT = ("meta", "metadata", "dataset_meta", "config", "cfg", "args", "hyper_parameters")
_WRAPPERS = ("module", "_orig_mod")
_COUNTERS = ("n_averaged", "steps", "decay")
_MOST_IN_FACTS = 4096
_MOST_IN_ALL_FACTS = 1 << 18
_LONGEST_NAME = 1000
_SHOWN_OF_NAME = 100


@dataclass(frozen=True)
class Unwrapped:
    """What a file holds, sorted.

    Args:
        tensors: the weights by name.
        facts: plain values that stand beside them; small tensors are lists.
        notes: which of several copies the weights are, in whole sentences without an end.
    """

    tensors: dict[str, Tensor]
    facts: dict[str, Any]
    notes: tuple[str, ...]


def unwrapped(tree: Any) -> Unwrapped:
    """The weights in what a program saved.

    Of several copies the average over training (EMA) is taken. Name parts that only tell of a wrapper go: ``module`` of
    parallel training and averaging, ``_orig_mod`` of ``torch.compile``.

    Args:
        tree: tensors and plain values, in dict, list, tuple and set.

    Raises:
        ValueError: it has no named tensors, two under one name, or one under a name that cannot be shown; or numbers
            without end stand beside them.
    """
    if not isinstance(tree, Mapping):
        raise ValueError(f"it must hold named tensors, got {_kind(tree)} alone")
    facts: dict[str, Any] = {}
    notes: list[str] = []
    place: tuple[str, ...] = ()
    averaged = False
    while (key := _weights_in(tree)) is not None:
        facts = _facts(tree) | facts
        notes += _notes(tree, key)
        averaged = averaged or key in _AVERAGES
        tree, place = tree[key], (*place, key)
    tensors = dict(_flat(tree))
    facts = _facts({key: value for key, value in tree.items() if not _has_weights(key, value)}) | facts
    if averaged or any(name.startswith("module.") for name in tensors):
        tensors = {name: value for name, value in tensors.items() if name not in _COUNTERS or value.dim()}
    if not tensors:
        inside = f" under {'.'.join(place)}" if place else ""
        got = listed([repr(key)[:_SHOWN_OF_NAME] for key in tree], 10) or "nothing"
        raise ValueError(f"it must hold named tensors, got {got}{inside}")
    unnamed = [ascii(name)[:_SHOWN_OF_NAME] for name in tensors if not name.isprintable()]
    if unnamed:
        raise ValueError(f"the names of its tensors must be printable, got {listed(unnamed)}")
    tensors = _plain_names(tensors)
    spare = _second_copies(tensors)
    if spare:
        notes.append(f"{len(spare)} tensors that an average was made from were left out (ema_...)")
    return Unwrapped({name: value for name, value in tensors.items() if name not in spare}, facts, tuple(notes))


def _weights_in(tree: Mapping[Any, Any]) -> str | None:
    """The key under which the weights stand; None where they stand in ``tree`` itself."""
    keys = ["state_dict"] if _average_is_in_state_dict(tree) else [*_AVERAGES, *_WEIGHTS, *_TEACHERS]
    return next((key for key in keys if isinstance(tree.get(key), Mapping) and any(_flat(tree[key]))), None)


def _average_is_in_state_dict(tree: Mapping[Any, Any]) -> bool:
    """Whether the program put the average in the place of the weights, and these into another place.

    Lightning's callbacks do so, and mmengine's hook, which leaves the weights under ``ema_state_dict`` then.
    """
    if "state_dict" not in tree:
        return False
    meta = tree.get("meta")
    of_mmengine = "message_hub" in tree or (isinstance(meta, Mapping) and "mmengine_version" in meta)
    return "current_model_state" in tree or ("ema_state_dict" in tree and of_mmengine)


def _notes(tree: Mapping[Any, Any], key: str) -> Iterator[str]:
    if key in _AVERAGES:
        yield f"the average of the weights ({key}) was taken"
    elif key in _TEACHERS:
        yield f"the weights of the teacher ({key}) were taken"
    elif key == "state_dict" and _average_is_in_state_dict(tree):
        yield "the average of the weights (state_dict) was taken, which stands where the weights are else"
    known = {*_AVERAGES, *_WEIGHTS, *_TEACHERS, *_OTHER_COPIES, *_OF_TRAINING}
    others = [
        f"`{printable(other)[:_SHOWN_OF_NAME]}`"
        for other, value in tree.items()
        if other not in known and _is_large(value)
    ]
    if others:
        yield f"tensors beside the weights were left out, those of {listed(others)}"


def _is_large(value: Any) -> bool:
    return _numbers_in(value) > _MOST_IN_FACTS


def _numbers_in(value: Any) -> int:
    """How many numbers stand in tensors."""
    if isinstance(value, Tensor):
        return value.numel()
    inside = value.values() if isinstance(value, Mapping) else value if isinstance(value, list | tuple) else ()
    return sum(map(_numbers_in, inside))


def _flat(tree: Mapping[Any, Any], before: str = "") -> Iterator[tuple[str, Tensor]]:
    for key, value in tree.items():
        name = f"{before}{key}"
        if len(name) > _LONGEST_NAME:
            raise ValueError(f"it must hold names of at most {_LONGEST_NAME} characters, got one of {len(name)}")
        if isinstance(value, Tensor):
            yield name, value
        elif isinstance(value, Mapping) and (before or key not in (*_ABOUT, *_OF_TRAINING)):
            yield from _flat(value, f"{name}.")


def _has_weights(key: Any, value: Any) -> bool:
    return any(_flat({key: value}))


def _second_copies(tensors: Mapping[str, Tensor]) -> set[str]:
    """Names under which mmcv's hook puts the weights that it made an average from, which stands in their place."""
    return {f"ema_{name.replace('.', '_')}" for name in tensors} & set(tensors)


def _plain_names(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    whole: dict[str, str] = {}
    for name in tensors:
        plain = ".".join(part for part in name.split(".") if part not in _WRAPPERS) or name
        if plain in whole:
            raise ValueError(f"it holds two tensors for {plain}: {whole[plain]} and {name}; keep one of them")
        whole[plain] = name
    return {plain: tensors[name] for plain, name in whole.items()}


def _facts(tree: Mapping[Any, Any]) -> dict[str, Any]:
    """The plain values in a level, without weights and states of the training; small tensors are lists."""
    others = {*_AVERAGES, *_WEIGHTS, *_TEACHERS, *_OTHER_COPIES, *_OF_TRAINING}
    kept = {key: value for key, value in tree.items() if key in _ABOUT or not (key in others or _is_large(value))}
    facts = {str(key): _small(value) for key, value in kept.items()}
    if _numbers_in(facts) > _MOST_IN_ALL_FACTS:
        raise ValueError(f"it must hold at most {_MOST_IN_ALL_FACTS} numbers beside its weights, got more in tensors")
    return {key: _plain(value) for key, value in facts.items()}


def _small(value: Any) -> Any:
    """A value without what holds many numbers."""
    if isinstance(value, Mapping):
        return {key: _small(item) for key, item in value.items() if not _is_large(item)}
    return None if _is_large(value) else value


def _plain(value: Any) -> Any:
    if isinstance(value, Tensor):
        return value.tolist() if value.numel() else []
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    return type(value)(map(_plain, value)) if isinstance(value, list | tuple) else value


def _kind(tree: Any) -> str:
    return "a tensor" if isinstance(tree, Tensor) else f"a {type(tree).__name__}"
