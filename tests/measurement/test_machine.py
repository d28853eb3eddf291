import torch

from src import __version__
from src.measurement.machine import machine
from src.measurement.options import num_cores


def test_the_machine_and_versions_are_told():
    told = machine()
    assert told["cores"] == num_cores()
    assert told["versions"]["torch"] == torch.__version__.partition("+")[0]
    assert told["versions"]["toolkit"] == __version__
    assert told["processor"]
    assert (told["gpu"] is None) == (not torch.cuda.is_available())
