from pathlib import Path

import numpy as np
from PIL import Image


def test_two_processes_log_the_same_keys_and_the_scores_of_one(checkpoint, tmp_path, run_python):
    """One process sees two classes, the other a third; both must log all, and the numbers of a single process."""
    for index, value in enumerate((1, 3, 2, 3)):
        for kind, pixels in (("images", np.full((20, 24, 3), 60 * value)), ("annotations", np.full((20, 24), value))):
            path = tmp_path / "two" / kind / "validation" / f"{index}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(pixels.astype(np.uint8)).save(path)
    tables = []
    for flags in ([], ["--trainer.devices=2", "--trainer.strategy=ddp"]):
        config = Path(checkpoint).with_name("config.yaml")
        arguments = [f"--config={config}", f"--ckpt_path={checkpoint}", f"--data.root={tmp_path}/two", *flags]
        arguments += ["--trainer.limit_val_batches=1.0", f"--name=processes{len(flags)}"]
        run_python("src.validate", arguments)
        tables.append([path.read_text() for path in Path(f"runs/processes{len(flags)}").rglob("classes.csv")])
    assert len(tables[0]) == 1
    assert tables[0] == tables[1]
    assert [row.split(",")[3] for row in tables[0][0].splitlines()[1:4]] == ["480", "480", "960"]


def test_two_processes_train_and_predict_each_image_once(tiny_config, sample_root, run_python):
    two = ["--trainer.devices=2", "--trainer.strategy=ddp", "--trainer.accelerator=cpu"]
    done = run_python("src.fit", [f"--config={tiny_config}", *two])
    assert "strides" not in done.stderr, "torch warns of gradients that are stored unlike their parameters"
    (best,) = Path("runs/tiny").glob("*/best.ckpt")
    images = sample_root / "images" / "validation"
    arguments = [f"--ckpt_path={best}", f"--data.images={images}", "--output=masks", *two]
    run_python("src.predict", arguments)
    assert sorted(path.stem for path in Path("masks").glob("*.png")) == sorted(path.stem for path in images.iterdir())
