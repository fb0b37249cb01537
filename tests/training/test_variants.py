"""Every row of the methods' table, and every choice that the paper leaves open, runs to the end."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tiny_runs import model_of, tiny_job, tiny_settings, train_run

from acl_bert.config.base import merge
from acl_bert.config.method import Method, known_methods
from acl_bert.config.training import Training
from acl_bert.model.build import build_classifier, load_model
from acl_bert.model.classifier import EncoderClassifier
from acl_bert.runs.files import PUBLISHED, RunFolder
from acl_bert.runs.store import MANIFEST
from acl_bert.training import finetune
from acl_bert.training.jobs import Job

TRAINING = Training(epochs=1, batch_size=16, learning_rate=1e-3, device="cpu", precision="fp32")
STEPS = 6  # 96 rows in batches of 16
DEPTH = 3


def row(name: str, **changes: Any) -> Method:
    return Method.model_validate(merge(known_methods()[name].model_dump(by_alias=True), changes))


class Runs:
    """Runs of one seed in one store, and the teachers that they share."""

    def __init__(self, folder: Path, encoder: Path, tokens: Path) -> None:
        self.folder, self.encoder, self.tokens = folder, encoder, tokens

    def teacher(self, method: Method) -> RunFolder | None:
        """That of a student, with the student's representation."""
        job = self._teacher_job(method)
        return None if job is None else self._run(job.settings.method, None, keep_model=True)

    def __call__(self, method: Method, keep_model: bool = False) -> RunFolder:
        return self._run(method, self._teacher_job(method), keep_model)

    def _teacher_job(self, method: Method) -> Job | None:
        if method.teacher is None:
            return None
        teacher = row(method.teacher, representation=method.representation)
        settings = tiny_settings(teacher, TRAINING)
        return tiny_job(settings, self.encoder, self.tokens, keep_model=True)

    def _run(self, method: Method, teacher: Job | None, keep_model: bool) -> RunFolder:
        settings = tiny_settings(method, TRAINING)
        return train_run(
            settings, self.encoder, self.tokens, self.folder, teacher, keep_model=keep_model
        )


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory, tiny_encoder: Path, tiny_task: Path) -> Runs:
    return Runs(tmp_path_factory.mktemp("variants"), tiny_encoder, tiny_task)


@pytest.fixture(scope="module")
def acl_cl(runs: Runs) -> RunFolder:
    """The row that the open choices of students are variants of."""
    return runs(row("acl_cl"))


def check(run: RunFolder, method: Method, teacher: RunFolder | None) -> None:
    """The run's files, its exits, its scores, and each step's cells."""
    names = {path.name for path in run.path.iterdir()}
    assert names == {*PUBLISHED, MANIFEST}
    metrics = run.metrics()
    depth = method.layers or DEPTH
    exits = list(range(1, depth + 1)) if method.is_multi_exit else [depth]
    assert metrics["depth"] == depth
    assert list(metrics["exits"]) == [str(layer) for layer in exits]
    assert metrics["exits"][str(depth)] == metrics["metrics"]
    assert np.isfinite([v for scores in metrics["exits"].values() for v in scores.values()]).all()
    assert metrics["teacher"] == (teacher.run_hash if teacher else None)
    logits, labels = run.dev_logits()["dev"]
    assert logits.shape == (48, len(exits), 2) and labels.shape == (48,)
    assert np.isfinite(logits).all()

    history = run.history()
    assert len(history) == STEPS
    for step in history:
        check_step(step, method)
    assert (metrics["gate"] is None) == (method.gate.mode == "off")
    if gate := metrics["gate"]:
        acted = {"discard": "discarded", "pcgrad": "changed", "gradvac": "changed"}
        opposed = sum(1 - (step["kept"] or 0) for step in history)
        counts = {"discarded": 0.0, "changed": 0.0}
        if not method.is_multi_exit:  # one decision a step
            assert counts | {acted[method.gate.mode]: opposed} == {k: gate[k] for k in counts}
        per_exit = method.is_multi_exit and method.gate.scope == "representation"
        learning = [m for m in exits if not (method.spares_teacher_exit and m == DEPTH)]
        if per_exit:
            assert list(gate["exits"]) == [str(layer) for layer in learning]
        else:
            assert "exits" not in gate


def check_step(step: Mapping[str, float | None], method: Method) -> None:
    """Which cells are filled, and that loss is what CE and the term make together."""
    alone = method.regime == "alternating" and (step["step"] or 0) % 2 == 1  # the first is update 0
    term = method.has_auxiliary_loss and not (alone and method.spares_teacher_exit)
    filled = {"step", "epoch", "loss", "ce", "lr", "grad_norm", "tokens"}
    if term:
        filled.add("contrastive" if method.contrastive != "none" else "distillation")
    if term and method.gate.mode != "off":
        filled |= {"angle", "kept"}
        if method.gate.scope != "representation":
            filled.add("angle_h")
    assert {name for name, value in step.items() if value is not None} == filled
    values = {name: value for name, value in step.items() if value is not None}
    assert np.isfinite(list(values.values())).all()
    loss, ce = values["loss"], values["ce"]
    if not term:
        assert loss == pytest.approx(ce, rel=1e-6)
        return
    added = values["contrastive" if method.contrastive != "none" else "distillation"]
    whole = method.ce_weight * ce + method.weight * added
    kept = values.get("kept", 1.0) if method.gate.mode == "discard" else 1.0
    if kept in (0, 1):
        assert loss == pytest.approx(whole if kept else ce, rel=1e-5)
    else:  # some exits dropped theirs
        assert min(ce, whole) <= loss <= max(ce, whole)


@pytest.mark.parametrize("name", sorted(known_methods()))
def test_every_row_of_the_table_runs(runs: Runs, name: str) -> None:
    method = row(name, **({"layers": 2} if name == "static" else {}))  # the encoder has 3 layers
    check(runs(method), method, runs.teacher(method))


# What docs/paper.md §2.8 lets a student choose, and the choices that belong to ACL-CL alone.
VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    "start": ("acl_cl", {"start": "encoder"}),
    "frozen backbone": ("acl_cl", {"regime": "frozen_backbone"}),
    "model of 1 layer": ("acl_cl", {"regime": "single_exit", "layers": 1}),
    "model of 2 layers": ("acl_cl", {"regime": "single_exit", "layers": 2}),
    "trained teacher": ("acl_cl", {"teacher_exit": "live"}),
    "gate, encoder": ("acl_cl", {"gate": {"scope": "encoder"}}),
    "gate, last layer": ("acl_cl", {"gate": {"scope": "last_layer"}}),
    "first token": ("acl_cl", {"representation": "cls"}),
    "ascending": ("acl_cl", {"exit_weights": "ascending"}),
    "teacher anchors": ("acl_cl", {"teacher_anchors": True}),
    "no labels": ("acl_cl", {"label_embeddings": False}),
    "no cross-layer": ("acl_cl", {"contrastive": "acl_embed"}),
    "alternating": ("acl_cl", {"regime": "alternating"}),
    "frozen, KD": ("logits_kd", {"regime": "frozen_backbone"}),
    "trained teacher, no other": (
        "acl_cl",
        {"teacher_exit": "live", "teacher": None, "start": "encoder"},
    ),
}


@pytest.mark.parametrize(
    "variant",
    VARIANTS,
)
def test_every_open_choice_of_a_student_runs(runs: Runs, acl_cl: RunFolder, variant: str) -> None:
    name, changes = VARIANTS[variant]
    method = row(name, **changes)
    run = runs(method)
    check(run, method, runs.teacher(method))
    assert run.run_hash != acl_cl.run_hash
    ours, usual = run.dev_logits()["dev"][0], acl_cl.dev_logits()["dev"][0]
    assert ours.shape != usual.shape or not np.array_equal(ours, usual), "it changed nothing"


@pytest.mark.parametrize("name", ["acl_cl", "logits_kd", "two_stage"])
def test_on_a_frozen_backbone_the_shallow_exits_alone_move(runs: Runs, name: str) -> None:
    method = row(name, regime="frozen_backbone")
    run = runs(method, keep_model=True)
    taught = runs.teacher(method)
    assert taught is not None
    ours, teacher = load_model(model_of(run)), load_model(model_of(taught))
    assert_same(ours.encoder, teacher.encoder)
    assert_same(ours.heads[-1], teacher.heads[-1])
    torch.manual_seed(1)
    before = build_classifier(str(runs.encoder), None, ["no", "yes"], "pooler", every_layer=True)
    for exit_index in range(DEPTH - 1):
        drawn = before.heads[exit_index].state_dict()
        for parameter, value in ours.heads[exit_index].state_dict().items():
            assert not torch.equal(value, drawn[parameter]), f"heads.{exit_index}.{parameter}"
    # So its last exit answers as the teacher.
    np.testing.assert_allclose(
        run.dev_logits()["dev"][0][:, -1], taught.dev_logits()["dev"][0][:, 0], atol=1e-6
    )


def assert_same(first: torch.nn.Module, second: torch.nn.Module) -> None:
    left, right = first.state_dict(), second.state_dict()
    assert left.keys() == right.keys()
    assert [name for name in left if not torch.equal(left[name], right[name])] == []


# ---- Methods of one seed are pairs: they start from the same draws and see the same batches


@dataclass(frozen=True)
class Start:
    """What a run had when its first step came."""

    shallow: list[dict[str, torch.Tensor]]
    random_state: torch.Tensor
    history: list[dict[str, float | None]]


@pytest.fixture(scope="module")
def starts(tmp_path_factory: pytest.TempPathFactory, runs: Runs) -> dict[str, Start]:
    methods = {
        "jt": row("jt"),
        "acl_cl": row("acl_cl"),
        "two_stage": row("two_stage"),
        "acl_cl, encoder": row("acl_cl", start="encoder"),
        "logits_kd, encoder": row("logits_kd", start="encoder"),
    }
    fresh = Runs(tmp_path_factory.mktemp("starts"), runs.encoder, runs.tokens)
    for method in methods.values():
        fresh.teacher(method)  # trained before anything is watched
    found = {}
    train = finetune.train
    with pytest.MonkeyPatch.context() as patch:
        for name, method in methods.items():
            seen: list[tuple[list[dict[str, torch.Tensor]], torch.Tensor]] = []

            def watched(model: EncoderClassifier, *more: Any, into: Any = seen) -> Any:
                shallow = [
                    {key: value.clone() for key, value in head.state_dict().items()}
                    for head in list(model.heads)[:-1]
                ]
                into.append((shallow, torch.get_rng_state()))
                return train(model, *more)

            patch.setattr(finetune, "train", watched)
            history = fresh(method).history()
            ((shallow, state),) = seen
            found[name] = Start(shallow, state, history)
    return found


def test_methods_of_a_seed_draw_the_same_heads(starts: dict[str, Start]) -> None:
    jt = starts["jt"]
    for name, start in starts.items():
        for ours, theirs in zip(start.shallow, jt.shallow, strict=True):
            assert ours.keys() == theirs.keys()
            assert all(torch.equal(ours[key], theirs[key]) for key in ours), name
    drawn = [head["classifier.weight"] for head in jt.shallow]
    assert not torch.equal(*drawn), "the comparison must be able to fail"


def test_loading_a_teacher_moves_no_random_number(starts: dict[str, Start]) -> None:
    for name, start in starts.items():
        assert torch.equal(start.random_state, starts["jt"].random_state), name


def test_the_first_step_of_pairs_has_the_same_ce(starts: dict[str, Start]) -> None:
    jt, *others = (starts[name].history for name in ("jt", "acl_cl, encoder", "logits_kd, encoder"))
    for other in others:
        assert other[0]["ce"] == jt[0]["ce"]
        assert other[1]["ce"] != jt[1]["ce"]  # then the term has moved the weights
        assert [step["tokens"] for step in other] == [step["tokens"] for step in jt]
    assert starts["acl_cl"].history[0]["ce"] != jt[0]["ce"]  # it starts as its teacher
