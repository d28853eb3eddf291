import argparse
import json

import pytest
import torch

from src.measurement.options import ROWS, Options, add_arguments, num_cores, options_of


def told(*words):
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    return options_of(parser.parse_args(words))


def test_without_flags_everything_is_measured_against_transformers():
    options, notes = told()
    assert options == Options()
    assert options.rows == tuple(ROWS)
    assert (options.inference_batch, options.training_batch) == (1, 2)
    assert notes == []


def test_every_flag_reaches_the_options():
    words = "--model nano --config a --config b --size 32x48 --batch 3 --threads 1 --precision bfloat16 --against "
    words += "smp,transformers --numerics both --compile --rounds 7 --only label_map,features --classes 4 "
    options, _ = told(*words.split(), "--memory-size", "64x96")
    assert options == Options(
        "nano", ("a", "b"), (32, 48), 3, 1, "bfloat16", "cpu", ("transformers", "smp"), "both", True, 7,
        ("features", "label_map"), (64, 96), 4,
    )  # fmt: skip
    assert (options.inference_batch, options.training_batch) == (3, 3)


def test_options_go_through_json():
    options = Options(configs=("a.yaml",), size=(3, 5), batch=4, against=(), rows=("logits",))
    assert Options.from_dict(json.loads(json.dumps(options.to_dict()))) == options


def test_none_is_no_library():
    assert told("--against", "none")[0].against == ()


def test_more_threads_than_cores_are_a_note():
    cores = num_cores()
    assert told("--threads", str(cores))[1] == []
    assert told("--threads", str(cores + 1))[1] == [
        f"{cores + 1} threads share {cores} cores, so they wait for one another"
    ]


@pytest.mark.parametrize("size", ["512", "512x", "x512", "0x5", "5x0", "5x5x5", "-5x5", "5 x 5", "5X5", "a", ""])
def test_a_size_is_two_numbers(size, capsys):
    with pytest.raises(SystemExit) as end:
        told(f"--size={size}")
    assert end.value.code == 2
    assert f"--size: must be HxW in pixels, for example 512x512, got {size}" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ("--against", "transformer"),
            "must be a library of transformers, torchvision, smp, got transformer; the near",
        ),
        (("--against", "mmseg"), "got mmseg; there are transformers, torchvision, smp"),
        (("--against", "none, smp"), "must be none alone, or libraries without it, got none, smp"),
        (("--only", "label_maps"), "got label_maps; the nearest is `label_map`"),
        (("--threads", "0"), "must be a whole number from 1 to 999999, got 0"),
        (("--rounds", "many"), "must be a whole number from 1 to 999999, got many"),
        (("--precision", "int8"), "invalid choice"),
    ],
)
def test_what_is_not_known_is_said(words, said, capsys):
    with pytest.raises(SystemExit) as end:
        told(*words)
    assert end.value.code == 2
    assert said in " ".join(capsys.readouterr().err.split())


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a GPU")
def test_without_a_gpu_cuda_is_refused():
    with pytest.raises(ValueError, match="--device must be cpu on this machine, got cuda"):
        told("--device", "cuda")


def test_transformers_does_not_train_on_one_image():
    with pytest.raises(ValueError, match="--batch must be at least 2 to train transformers"):
        told("--batch", "1")
    assert told("--batch", "1", "--only", "label_map")[0].batch == 1
    assert told("--batch", "1", "--against", "none")[0].batch == 1


def test_a_process_for_memory_does_not_compile():
    assert told("--compile")[0].rows == tuple(row for row in ROWS if not row.endswith("_memory"))
    with pytest.raises(ValueError, match="--compile must go without rows of memory"):
        told("--compile", "--only", "training_memory")
