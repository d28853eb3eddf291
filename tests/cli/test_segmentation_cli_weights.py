"""Training that starts from published weights: ``--model.weights``."""

import functools
import hashlib
from pathlib import Path

import pytest
import torch
import yaml

from src.cli import SegmentationCLI
from src.inference import load_predictor
from src.models import FCNHead, Segmenter, SwinTransformer, SwinTransformerV2, UPerNetDecoder
from src.tasks import SemanticSegmentation
from tests.weights.files import classifier_state, saved, theirs

HEADS = {"decoder": UPerNetDecoder, "auxiliary": FCNHead}


def published(path: Path, num_classes: int, names: list[str] | None = None, **settings: object) -> Segmenter:
    """A model of the size in ``tiny_config``, saved as the official code saves it."""
    sizes = {"embed_dim": 8, "depths": (1, 1, 1, 1), "num_heads": (1, 1, 2, 2), "window_size": 4} | settings
    torch.manual_seed(3)
    heads = {name: functools.partial(kind, channels=8) for name, kind in HEADS.items()}
    model = Segmenter(SwinTransformer(**sizes), **heads, num_classes=num_classes)
    meta = {} if names is None else {"meta": {"CLASSES": names}}
    saved(path, {"state_dict": theirs(model.state_dict(), "official"), **meta})
    return model


def still(*flags: str) -> list[str]:
    """Flags of a run whose steps change nothing, so that its weights are those that it started from."""
    return ["--model.optimizer.lr=1e-30", "--model.optimizer.weight_decay=0", *flags]


def test_a_file_of_150_classes_starts_a_run_of_others(fit, tmp_path, caplog):
    source = published(tmp_path / "a.pth", 150)
    with caplog.at_level("INFO"):
        cli = fit("--model.weights", "a.pth", *still())
    assert cli.trainer.global_step == 2
    model, text = cli.model.model, caplog.text
    assert torch.equal(
        model.encoder.layers[2].blocks[0].mlp.fc1.weight, source.encoder.layers[2].blocks[0].mlp.fc1.weight
    )
    assert torch.equal(model.decoder.fpn_convs[0].conv.weight, source.decoder.fpn_convs[0].conv.weight)
    assert torch.equal(model.auxiliary.convs[0].conv.weight, source.auxiliary.convs[0].conv.weight)
    assert "weights: a.pth" in text
    assert "official (segmentor, Swin V1)" in text
    assert "100% of what the layout promises" in text
    assert "decoder.conv_seg (2)" in text
    assert "auxiliary.conv_seg (2)" in text


def test_classes_are_carried_over_by_the_names_of_the_data(fit, tmp_path, caplog):
    source = published(tmp_path / "a.pth", 3, ["car", "Sky", "ocean"])
    with caplog.at_level("INFO"):
        cli = fit("--model.weights=a.pth", *still())
    place = cli.model.classes.names.index("sky")
    assert torch.equal(cli.model.model.decoder.conv_seg.weight[place], source.decoder.conv_seg.weight[1])
    assert torch.equal(cli.model.model.auxiliary.conv_seg.weight[place], source.auxiliary.conv_seg.weight[1])
    assert "classes 3 -> 8 (1 by name)" in caplog.text


def test_options_reach_the_loading(fit, tmp_path, caplog):
    published(tmp_path / "a.pth", 3)
    (tmp_path / "theirs.txt").write_text("sky\nroad\ncar\n")
    with caplog.at_level("INFO"):
        fit("--model.weights=a.pth", "--model.weights_options.source_classes=theirs.txt",
            "--model.model.encoder.window_size=3", "--model.weights_options.resize=geometric")  # fmt: skip
    assert "window 4x4 -> 3x3 (geometric), 4 times" in caplog.text
    assert "by name" in caplog.text
    with pytest.raises(ValueError, match="missing are encoder"):
        fit("--model.weights=a.pth", "--model.model.encoder.depths=[1,1,2,1]")
    fit("--model.weights=a.pth", "--model.model.encoder.depths=[1,1,2,1]",
        '--model.weights_options.strict=["encoder.layers.2.blocks.1"]')  # fmt: skip


def test_a_run_that_goes_on_keeps_what_it_has_learned(fit, tmp_path):
    published(tmp_path / "a.pth", 150)
    first = fit("--model.weights=a.pth")
    (tmp_path / "a.pth").unlink()
    path = f"{first.trainer.log_dir}/last.ckpt"
    again = fit("--model.weights=a.pth", "--ckpt_path", path, "--trainer.max_steps=3", *still())
    assert again.trainer.global_step == 3
    name = "encoder.patch_embed.proj.weight"
    trained = torch.load(path, weights_only=True)["state_dict"][f"model.{name}"]
    assert torch.equal(again.model.model.state_dict()[name], trained)
    assert again.model.started_from["source"] == "a.pth"


def test_a_checkpoint_tells_where_it_started_and_starts_nothing(fit, tmp_path):
    published(tmp_path / "a.pth", 150)
    run = fit("--model.weights=a.pth").trainer
    (tmp_path / "a.pth").unlink()
    path = run.checkpoint_callback.best_model_path
    section = torch.load(path, weights_only=True)["segmentation"]
    assert section["started_from"] == {"source": "a.pth", "layout": "official (segmentor, Swin V1)", "coverage": 1.0}
    assert not {"weights", "weights_options"} & section["task"]["init_args"].keys()
    assert SemanticSegmentation.load_from_checkpoint(path).weights is None
    config = ["--config", f"{run.log_dir}/config.yaml"]
    assert SegmentationCLI("validate", [*config, "--ckpt_path", path]).trainer.callback_metrics["val/miou"] >= 0


def test_fitting_twice_in_one_process_loads_once(fit, tmp_path):
    published(tmp_path / "a.pth", 150)
    cli = fit("--model.weights=a.pth", *still())
    with torch.no_grad():
        cli.model.model.encoder.norm0.weight.fill_(7)
    cli.trainer.fit_loop.epoch_loop.max_steps = 3
    cli.trainer.fit(cli.model, cli.datamodule)
    assert (cli.model.model.encoder.norm0.weight == 7).all()


def test_the_run_that_weights_come_from_is_left_as_it_is(fit, tmp_path):
    source = fit("--name=first").trainer
    files = sorted(path for path in Path(source.log_dir).rglob("*") if path.is_file())
    before = [hashlib.sha256(path.read_bytes()).hexdigest() for path in files]
    times = [path.stat().st_mtime_ns for path in files]
    best = source.checkpoint_callback.best_model_path
    fit("--name=second", f"--model.weights={best}", "--checkpoint.monitor=val/miou")
    fit("--name=third", f"--ckpt_path={source.log_dir}/last.ckpt", "--trainer.max_steps=3")
    assert sorted(path for path in Path(source.log_dir).rglob("*") if path.is_file()) == files
    assert [hashlib.sha256(path.read_bytes()).hexdigest() for path in files] == before
    assert [path.stat().st_mtime_ns for path in files] == times


def test_a_checkpoint_of_the_toolkit_fills_everything_by_name(fit, tmp_path, caplog):
    best = fit().trainer.checkpoint_callback.best_model_path
    with caplog.at_level("INFO"):
        cli = fit(f"--model.weights={best}", *still())
    trained = torch.load(best, weights_only=True)["state_dict"]
    name = "decoder.conv_seg.weight"
    assert torch.equal(cli.model.model.state_dict()[name], trained[f"model.{name}"])
    assert "toolkit (segmentor, Swin V1)" in caplog.text


def test_other_classes_than_the_checkpoints_point_to_weights(fit, tmp_path, tiny_config):
    last = Path(fit().trainer.log_dir, "last.ckpt").absolute()
    (tmp_path / "classes.txt").write_text("1 sky\n2 meadow\n")
    root, data = (
        yaml.safe_load(tiny_config.read_text())["data"]["init_args"]["root"],
        "--data.images={0}/images/training",
    )
    folders = [data.format(root), f"--data.masks={root}/annotations/training", "--data.classes=classes.txt"]
    folders += ["--data.ignored_ids=[0,3,4,5,6,7,8]", "--data.crop_size=32", "--data.num_workers=0"]
    with pytest.raises(ValueError, match=r"Start a run from these weights with --model\.weights"):
        fit("--data=src.data.MaskFolder", *folders, f"--ckpt_path={last}")
    cli = fit("--data=src.data.MaskFolder", *folders, f"--model.weights={last}")
    assert cli.model.started_from["coverage"] == 1


@pytest.mark.parametrize(
    ("weights", "said"),
    [
        ("nowhere.pth", "got nowhere.pth, which does not exist"),
        ("swin_tiny_imagnet1k", r"did you mean swin_tiny_imagenet1k\?"),
        ("hf:", "hf: must be hf:owner/name"),
        ("cut.pth", r"cut\.pth cannot be read"),
        ("other.pth", "16x3x4x4 in the file, 8x3x4x4 in the model"),
        ("best", "holds no best"),
    ],
)
def test_weights_that_cannot_be_used_are_told_before_the_data_are_looked_at(fit, tmp_path, weights, said):
    published(tmp_path / "other.pth", 150, embed_dim=16)
    (tmp_path / "cut.pth").write_bytes((tmp_path / "other.pth").read_bytes()[:1000])
    with pytest.raises((FileNotFoundError, ValueError), match=said):
        fit(f"--model.weights={weights}", "--data.root=made_by_the_data")
    assert not Path("made_by_the_data").exists()
    assert not list(Path("runs").glob("*/*"))


@pytest.mark.parametrize("told", ["best", "last", "{folder}", "{folder}/last.ckpt"])
def test_a_run_of_ones_own_is_named_as_for_going_on(fit, told):
    run = fit("--name=first").trainer
    cli = fit("--name=second", f"--model.weights={told.format(folder=run.log_dir)}", *still())
    kind = "last" if "last" in told else "best"
    assert cli.model.started_from["source"] == str(Path(run.log_dir, f"{kind}.ckpt"))
    assert cli.model.started_from["coverage"] == 1


@pytest.mark.parametrize("told", [[], ["--model.model.encoder.pretrained_window_size=8"]], ids=["", "of the config"])
def test_a_run_of_the_second_version_goes_on_with_the_reach_of_its_weights(fit, tmp_path, told):
    sizes = {"embed_dim": 8, "depths": (1, 1, 1, 1), "num_heads": (1, 1, 2, 2), "window_size": 4}
    state = theirs(classifier_state(SwinTransformerV2(**sizes)), "microsoft")
    saved(tmp_path / "swinv2_tiny_patch4_window4_128.pth", {"model": state})
    flags = ["--model.model.encoder=src.models.SwinTransformerV2", "--model.model.encoder.embed_dim=8",
             "--model.model.encoder.depths=[1,1,1,1]", "--model.model.encoder.num_heads=[1,1,2,2]",
             "--model.model.encoder.window_size=6", "--model.weights=swinv2_tiny_patch4_window4_128.pth"]  # fmt: skip
    first = fit(*flags, *told)
    assert first.model.model.encoder.layers[0].blocks[0].attn.position_bias.pretrained_window == (4, 4)
    again = fit(*flags, *told, f"--ckpt_path={first.trainer.log_dir}/last.ckpt", "--trainer.max_steps=3")
    assert again.trainer.global_step == 3
    assert again.model.model.encoder.layers[0].blocks[0].attn.position_bias.pretrained_window == (4, 4)
    best = again.trainer.checkpoint_callback.best_model_path
    encoder = load_predictor(best).model.encoder
    assert encoder.layers[2].blocks[0].attn.position_bias.pretrained_window == (4, 4)
    assert encoder.layers[2].blocks[0].attn.window == (6, 6)
