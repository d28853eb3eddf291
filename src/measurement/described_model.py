"""The model of configs alone, without the data that they name."""

from typing import Any

from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from src.models import Segmenter


def model_of_configs(names: tuple[str, ...], num_classes: int) -> Segmenter:
    """The model that configs describe together, its weights at random.

    Args:
        names: the configs, found as the command line finds them; the last one wins.
        num_classes: number of classes, where no config tells it.

    Raises:
        FileNotFoundError: there is no such config.
        ValueError: they describe no model, or one that cannot be built.
    """
    from src.cli.config_file import read_config  # brings in the trainer, which nothing else here needs

    values: Any = {}
    for name in names:
        values = stacked(values, read_config(name).values)
    told = ", ".join(names)
    try:
        values = OmegaConf.to_container(OmegaConf.create(values), resolve=True)
    except OmegaConfBaseException as error:
        raise ValueError(
            f"--config must be complete without flags, got {told}, where {str(error).splitlines()[0]}; name a file "
            f"that tells it."
        ) from error
    model = values.get("model") or {}
    parts = ((model.get("init_args") or {}).get("model") or {}).get("init_args") or {}
    if not isinstance(parts.get("encoder"), dict) or not parts.get("decoder"):
        raise ValueError(
            f"--config must describe a model with an encoder and a decoder, got {told}; put the config that does "
            f"before it, for example --config ade20k.yaml."
        )
    settings = {name: _settings(parts.get(name)) for name in ("encoder", "decoder", "auxiliary")}
    settings["num_classes"] = parts.get("num_classes") or num_classes
    try:
        return Segmenter.from_settings({"class_path": "src.models.Segmenter", "init_args": settings})
    except (ImportError, TypeError) as error:
        raise ValueError(f"--config must describe a model that can be built, got {told}: {error}.") from error


def stacked(below: Any, above: Any) -> Any:
    """Values with others over them; the arguments of one class do not become another's.

    Args:
        below: values, nested.
        above: the values that win.
    """
    if not isinstance(below, dict) or not isinstance(above, dict):
        return above
    other = "class_path" in above and above["class_path"] != below.get("class_path", above["class_path"])
    kept = {key: value for key, value in below.items() if not (other and key == "init_args")}
    return kept | {key: stacked(kept.get(key), value) for key, value in above.items()}


def _settings(part: Any) -> Any:
    if part is None:
        return None
    if isinstance(part, str):
        part = {"class_path": part}
    if "class_path" not in part:
        raise ValueError(f"--config must tell the class of each part of the model, got {part}; add its class_path.")
    return {"class_path": part["class_path"], "init_args": dict(part.get("init_args") or {})}
