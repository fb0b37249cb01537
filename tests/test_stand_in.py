"""The generated tasks are worth training on: reading a sentence pays, counting words does not."""

from pathlib import Path

import pytest
import yaml
from bag_of_words import bag_of_words_accuracy

from acl_bert.cli import main
from acl_bert.data.sources import read
from acl_bert.data.spec import Source, resolve
from acl_bert.runs.files import name_path
from acl_bert.runs.store import Store

DEMO = Path(__file__).parents[1] / "config" / "demo.yaml"


@pytest.mark.slow
@pytest.mark.parametrize("task", ["acceptability", "inference"])
def test_fine_tuning_beats_a_bag_of_words_by_ten_points(tmp_path: Path, task: str) -> None:
    # The demo's settings, but all rows and a third epoch, on which it saves a newcomer's time.
    study = yaml.safe_load(DEMO.read_text()) | {"tasks": {task: {}}, "tracking": {"enabled": False}}
    study["training"]["epochs"] = 3
    config = tmp_path / "demo.yaml"
    config.write_text(yaml.safe_dump(study))
    arguments = ["--config", str(config), "--results", str(tmp_path), "--task", task]
    assert main(["finetune", *arguments, "--method", "ce", "--seed", "1"]) == 0
    name = name_path(tmp_path / "demo", task, "minilm", "ce", 1)
    run = Store.beside(tmp_path / "demo").named(name).metrics()
    spec, source = resolve(task), Source(kind="generator")
    counting = bag_of_words_accuracy(read(spec, source, "train"), read(spec, source, "dev"))
    assert run["metrics"]["accuracy"] >= counting + 0.10
