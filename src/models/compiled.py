"""A model of which all or a part went through ``torch.compile``, which puts a module around it."""

from typing import Any

_WRAPPER = "_orig_mod"


def plain_name(name: str) -> str:
    """The name that a parameter or module has in the model as it was before.

    Args:
        name: its name now, for example ``_orig_mod.encoder.norm0.weight``.
    """
    return ".".join(part for part in name.split(".") if part != _WRAPPER)


def uncompiled(module: Any) -> Any:
    """The module that was compiled, or the module itself where it was not.

    Args:
        module: a model or a part of one.
    """
    return getattr(module, _WRAPPER, module)
