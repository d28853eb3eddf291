import pytest
import torch
from torch.profiler import ProfilerActivity, profile

from src.measurement.inputs import draw
from src.measurement.options import Options
from src.measurement.ours import build_model
from src.measurement.peers import build
from src.measurement.profiling import REST, STRIP_PARTS, PartTimes, part_of, profiled, share_lines, watched

OPTIONS = Options(model="nano", size=(32, 48), num_classes=3)


def test_a_part_does_not_count_the_parts_within_it():
    now = [0.0]
    times = PartTimes(lambda: now[0])
    for move in ("encoder", 1, "attention", 10, None, 100, None, 1000):
        if isinstance(move, str):
            times.enter(move)
        elif move is None:
            times.leave()
        else:
            now[0] += move
    times.enter("end")
    assert dict(times.seconds) == {REST: 1000, "encoder": 101, "attention": 10}


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("encoder.layers.0.blocks.11.attn", "attention"), ("encoder.layers.0.blocks.11.attn.qkv", None),
        ("encoder.layers.2.downsample", "merging"), ("decoder.fpn_bottleneck", "fpn bottleneck"),
        ("decoder.psp_modules", "pyramid pooling"), ("", None),
    ],
)  # fmt: skip
def test_modules_are_parts_by_their_names(name, part):
    assert part_of(name) == part


def test_methods_are_put_back():
    model = build_model(OPTIONS)
    before = [getattr(owner, method) for owner, method, *_ in STRIP_PARTS]
    with watched(model), pytest.raises(ZeroDivisionError), watched(model):
        raise ZeroDivisionError
    assert not any({"forward", "joined"} & vars(module).keys() for module in model.modules())
    assert [getattr(owner, method) for owner, method, *_ in STRIP_PARTS] == before


def test_a_watched_model_runs_as_it_would_unwatched():
    model, images = build_model(OPTIONS).eval(), draw(OPTIONS).images
    with torch.no_grad():
        model(images)  # what is made once is made
        with profile(activities=[ProfilerActivity.CPU]) as alone:
            expected = model(images).logits
        with watched(model) as times, profile(activities=[ProfilerActivity.CPU]) as beside:
            given = model(images).logits
    assert torch.equal(given, expected)
    calls = [{event.key: event.count for event in told.key_averages()} for told in (alone, beside)]
    assert calls[0] == calls[1]
    assert {part for part in times.seconds if part.startswith("finest level")} == {
        "finest level, the rest (lateral, classifier)",
        "finest level, 3x3 convolutions",
        "finest level, upsampled maps",
    }
    assert not any(part.startswith("classifier") for part in times.seconds)


def test_the_time_of_a_label_map_has_parts_and_operators():
    model, inputs = build_model(OPTIONS), draw(OPTIONS)
    ours = build("ours, exact", OPTIONS, model)
    ours.prepare("label_map")
    told = profiled(lambda: ours.run("label_map", inputs), ours.model, top=5)
    assert {"patch embedding", "attention", "MLP", "merging", "pyramid pooling", REST} <= told["parts"].keys()
    assert len(told["operators"]) == 5
    assert all(each["seconds"] >= 0 and each["calls"] >= 1 for each in told["operators"])
    parts, operators = share_lines(told)
    assert sum(float(share.removesuffix(" %")) for _, _, share in parts) == pytest.approx(100, abs=1)
    assert len(operators) == 5


def test_lists_of_modules_count_though_they_are_never_called():
    model = build_model(OPTIONS).eval()
    with torch.no_grad(), watched(model) as times:
        for conv, spec in zip(model.decoder.lateral_convs, model.feature_specs[:-1], strict=True):
            conv(torch.zeros(1, spec.channels, 4, 4))
    assert times.seconds["laterals"] > 0
