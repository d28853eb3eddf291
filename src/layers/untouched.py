"""Whether a module is what its class makes of it, so that its parameters may be used without calling it."""

from torch import nn


def untouched(module: nn.Module, *classes: type[nn.Module]) -> bool:
    """Whether a module is of one of these classes itself and nobody has hooked or parametrised it.

    Adapters, pruning, weight norms and users' hooks act when a module is called; where something of the kind is there
    it must be.

    Args:
        module: the module.
        *classes: what it may be.
    """
    return type(module) in classes and not hooked(module)


def hooked(module: nn.Module) -> bool:
    """Whether something is to happen when a module is called, before or after its ``forward``.

    Args:
        module: the module.
    """
    return bool(
        module._forward_hooks or module._forward_pre_hooks or module._backward_hooks or module._backward_pre_hooks
    )
