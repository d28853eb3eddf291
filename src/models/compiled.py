"""The names of a model of which all or a part went through ``torch.compile``, which puts a module around it."""

_WRAPPER = "_orig_mod"


def plain_name(name: str) -> str:
    """The name that a parameter or module has in the model as it was before.

    Args:
        name: its name now, for example ``_orig_mod.encoder.norm0.weight``.
    """
    return ".".join(part for part in name.split(".") if part != _WRAPPER)
