"""How the network of a run computes."""

from typing import cast

from lightning.pytorch import Callback, LightningModule, Trainer

from src.layers.conv3x3 import Numerics
from src.models.execution import Execution
from src.tasks import SemanticSegmentation


class PreparedNetwork(Callback):
    """Sets how the network computes; checkpoints do not depend on it.

    Args:
        numerics: ``exact``: 3x3 convolutions in float32 stay at about 1e-6 of the largest value from the true result;
            ``fast``: they may be somewhat further from it where that is faster, see docs/numerics.md.
        compile: compile encoder, decoder and auxiliary head with ``torch.compile``.
        channels_last: store the weights of convolutions channels last, as the maps are stored.
        cuda_graphs: record the kernels of each size on a CUDA device and replay them; wants ``compile``.

    Raises:
        ValueError: ``numerics`` is neither, or ``cuda_graphs`` is set without ``compile``.
    """

    def __init__(
        self,
        numerics: Numerics = "exact",
        compile: bool = False,
        channels_last: bool = False,
        cuda_graphs: bool = False,
    ) -> None:
        self.execution = Execution(numerics, compile, channels_last, cuda_graphs)

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        """Prepares the task's ``model``.

        Args:
            trainer: not used.
            pl_module: the task.
            stage: not used.
        """
        self.execution.prepare(cast(SemanticSegmentation, pl_module).model)
