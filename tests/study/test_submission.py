"""Files for GLUE's server, from a folder in GLUE's layout to the zip, on rows of our own."""

import random
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from run_folders import finish_run
from tiny_runs import model_of, train_run
from words import WORDS

from acl_bert.config.method import known_methods
from acl_bert.config.study import RunSettings
from acl_bert.config.training import Training
from acl_bert.data.prepare import prepare
from acl_bert.data.spec import Selection, Source, TaskSpec, resolve
from acl_bert.data.tokens import TokenStore, tokenise
from acl_bert.encoders import encoder_fingerprint
from acl_bert.errors import InputError
from acl_bert.files import read_json, write_csv, write_json
from acl_bert.model.multi_exit import MultiExitForSequenceClassification
from acl_bert.runs.files import METRICS, TEST_COLUMNS, TEST_PREDICTIONS, RunFolder
from acl_bert.study.layout import Layout, TaskLayout
from acl_bert.study.submission import SUBMISSIONS, submitted_tasks, write_submissions
from acl_bert.training.hardware import resolve_settings
from acl_bert.training.loop import compute_logits

SIZES = {"train": 60, "dev": 12, "dev_mm": 10, "test": 7, "test_mm": 5}
ROWS = {"cola": {"test": 4}, "rte": {"test": 3}, "mnli": SIZES}


def specs(*tasks: str, **overrides: Any) -> dict[str, TaskSpec]:
    return {task: resolve(task, {"rows": ROWS[task], **overrides}) for task in tasks}


def table(columns: list[str], rows: list[list[str]]) -> str:
    return "\n".join("\t".join(row) for row in [columns, *rows]) + "\n"


@pytest.fixture(scope="module")
def glue(tmp_path_factory: pytest.TempPathFactory) -> Source:
    """MNLI in GLUE's columns: invented rows whose words give the label away."""
    folder = tmp_path_factory.mktemp("glue")
    draw = random.Random(0)

    def text(label: int) -> str:
        return " ".join([*(3 * [WORDS[label]]), *draw.choices(WORDS, k=3)])

    spec = resolve("mnli")
    layout = spec.glue
    assert layout is not None
    for split, file in layout.files.items():
        rows = [
            [
                text(number % 3) if column in (layout.text or spec.text)
                else spec.labels[number % 3] if column == (layout.label or "label")
                else str(number) if column == "index"
                else "x"
                for column in file.columns
            ]
            for number in range(SIZES[split])
        ]  # fmt: skip
        path = folder / layout.folder / file.name
        path.parent.mkdir(exist_ok=True)
        path.write_text(table(file.columns, rows))
    return Source(kind="glue", folder=str(folder), test=True)


def test_tasks_with_test_sets_are_submitted(glue: Source) -> None:
    assert submitted_tasks(SPECS, glue) == list(SPECS)
    assert submitted_tasks(SPECS, glue.model_copy(update={"test": False})) == []


def layout(
    *cells: tuple[str, str, str], multi_exit: tuple[str, ...] = (), variants: tuple[str, ...] = ()
) -> Layout:
    return Layout(
        study="mine",
        tasks={
            task: TaskLayout(task.upper(), ("accuracy",), "accuracy", {"dev": ""}, subset=subset)
            for task, subset in (("cola", "subset, 9 of 99 training rows"), *UNMARKED)
        },
        encoders={"tiny": "some/tiny", "base": "some/base"},
        methods={"ce": "CE", "acl": "ACL", "jt": "JT", "acl@temperature=0.1": "ACL, τ = 0.1"},
        seeds=(1, 2, 3),
        cells=frozenset(cells),
        multi_exit=frozenset(multi_exit),
        teachers={},
        variants=frozenset(variants),
    )


UNMARKED = (("rte", None), ("mnli", None))


def read_zip(path: Path) -> dict[str, list[list[str]]]:
    with zipfile.ZipFile(path) as archive:
        texts = {name: archive.read(name).decode() for name in archive.namelist()}
    assert all(text.endswith("\n") and "\r" not in text for text in texts.values())
    return {name: [line.split("\t") for line in text.splitlines()] for name, text in texts.items()}


def test_from_glues_files_to_the_zip(tmp_path: Path, glue: Source, tiny_encoder: Path) -> None:
    """MNLI, which has two test sets, by a model with three exits, of which the last answers."""
    spec = specs("mnli")["mnli"]
    prepare(spec, glue, Selection(), tmp_path / "data")
    fingerprint = encoder_fingerprint(str(tiny_encoder), None)
    tokenise(
        tmp_path / "data", str(tiny_encoder), None, 32, tmp_path / "tokens", "tiny", fingerprint
    )
    store = TokenStore(tmp_path / "tokens")
    settings = resolve_settings(
        RunSettings(
            task="mnli",
            encoder="tiny",
            method_id="jt",
            seed=1,
            selection_metric="accuracy",
            method=known_methods()["jt"],
            training=Training(epochs=6, batch_size=16, learning_rate=5e-3, device="cpu"),
        )
    )
    run = train_run(
        settings, tiny_encoder, tmp_path / "tokens", tmp_path / "store", keep_model=True
    )
    assert run.metrics()["data"]["rows"]["test_mm"] == 5

    study = layout(("mnli", "tiny", "jt"), multi_exit=("jt",))
    write_submissions([run], study, {"mnli": spec}, tmp_path)
    files = read_zip(tmp_path / SUBMISSIONS / "tiny.jt.zip")
    model = MultiExitForSequenceClassification.from_pretrained(model_of(run))
    answers = {
        name: compute_logits(model, store.split(split), settings.training).argmax(axis=2)
        for split, name in (("test", "MNLI-m.tsv"), ("test_mm", "MNLI-mm.tsv"))
    }
    assert list(files) == ["MNLI-m.tsv", "MNLI-mm.tsv"]
    for name, chosen in answers.items():
        assert files[name] == [
            ["index", "prediction"],
            *([str(i), spec.labels[k]] for i, k in enumerate(chosen[:, -1])),
        ]
    # The test can fail: the exits differ, and not all answers are one class.
    every = np.concatenate(list(answers.values()))
    assert (every[:, 0] != every[:, -1]).any() and len(set(every[:, -1])) > 1


def predicted(
    study: Path, task: str, method: str, seed: int, value: float, classes: str
) -> RunFolder:
    """A finished run whose test predictions are the classes that are written one after another."""
    run = finish_run(study, f"{str(seed) * 64}-{task}-{method}", task, "tiny", method, seed)
    metrics = read_json(run / METRICS)
    metrics["selection"]["value"] = value
    write_json(run / METRICS, metrics)
    rows = [["test", number, int(label)] for number, label in enumerate(classes)]
    write_csv(run / TEST_PREDICTIONS, TEST_COLUMNS, rows)
    return RunFolder(run)


@pytest.fixture
def study(tmp_path: Path) -> tuple[list[RunFolder], Layout]:
    """CoLA with three seeds, of which two are equally good, RTE with one; ACL has CoLA alone."""
    runs = [
        predicted(tmp_path, "cola", "ce", 1, 0.5, "0000"),
        predicted(tmp_path, "cola", "ce", 3, 0.75, "1111"),
        predicted(tmp_path, "cola", "ce", 2, 0.75, "0110"),
        predicted(tmp_path, "rte", "ce", 1, 0.5, "011"),
        predicted(tmp_path, "cola", "acl", 1, 0.5, "1000"),
        predicted(tmp_path, "cola", "acl@temperature=0.1", 1, 0.5, "1000"),
        RunFolder(finish_run(tmp_path, "m" * 64, "mnli", "tiny", "ce")),  # without predictions
    ]
    found = [run.metrics() for run in runs]
    cells = {(each["task"], each["encoder"], each["method"]) for each in found}
    return runs, layout(*cells, variants=("acl@temperature=0.1",))


SPECS = specs("cola", "rte", "mnli")


def test_the_seed_that_is_best_on_selection_is_submitted(
    tmp_path: Path, study: tuple[list[RunFolder], Layout]
) -> None:
    write_submissions(*study, SPECS, tmp_path)
    names = sorted(path.name for path in (tmp_path / SUBMISSIONS).iterdir())
    assert names == ["README.md", "tiny.acl.zip", "tiny.ce.zip"]
    header = ["index", "prediction"]
    assert read_zip(tmp_path / SUBMISSIONS / "tiny.ce.zip") == {
        "CoLA.tsv": [header, ["0", "0"], ["1", "1"], ["2", "1"], ["3", "0"]],
        "RTE.tsv": [header, ["0", "entailment"], ["1", "not_entailment"], ["2", "not_entailment"]],
    }
    assert list(read_zip(tmp_path / SUBMISSIONS / "tiny.acl.zip")) == ["CoLA.tsv"]


def test_the_readme_says_which_run_and_what_is_missing(
    tmp_path: Path, study: tuple[list[RunFolder], Layout]
) -> None:
    write_submissions(*study, SPECS, tmp_path)
    text = (tmp_path / SUBMISSIONS / "README.md").read_text()
    ce, acl = text.split("\n## ")[1:]
    assert ce.startswith("tiny.ce.zip: CE, some/tiny\n")
    cola = "| CoLA.tsv | 2, of 3 | accuracy 75.00 | 2 | `runs/cola/tiny/ce/seed-2.json` |"
    assert cola in ce
    others = "MNLI-m.tsv, MNLI-mm.tsv, QNLI.tsv"
    missing = "Missing for a whole submission: "
    end = "STS-B.tsv, WNLI.tsv, AX.tsv."
    assert f"\n{missing}SST-2.tsv, MRPC.tsv, QQP.tsv, {others}, {end}\n" in ce
    assert f"\n{missing}SST-2.tsv, MRPC.tsv, QQP.tsv, {others}, RTE.tsv, {end}\n" in acl
    assert text.endswith("\nCOLA: subset, 9 of 99 training rows.\n")


def test_equal_studies_have_equal_bytes(
    tmp_path: Path, study: tuple[list[RunFolder], Layout]
) -> None:
    def written() -> dict[str, bytes]:
        write_submissions(runs, layout, SPECS, tmp_path)
        return {path.name: path.read_bytes() for path in (tmp_path / SUBMISSIONS).iterdir()}

    runs, layout = study
    first = written()
    runs.reverse()
    (tmp_path / SUBMISSIONS / "old.zip").write_text("of a method that is no longer there")
    assert written() == first
    with zipfile.ZipFile(tmp_path / SUBMISSIONS / "tiny.ce.zip") as archive:
        assert {entry.date_time[0] for entry in archive.infolist()} == {1980}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda text: text.removesuffix("test,3,0\n"), r"3 rows of test, .* wants the 4 of .*null"),
        (lambda text: text + "test,4,0\n", "5 rows of test"),
        (lambda text: text.replace("test,1,1", "test,7,1"), "4 rows of test"),
        (lambda text: text.replace("test,1,1", "test,1,2"), "damaged .*run it again"),
        (lambda text: text.replace("test,1,1", "test,1"), "damaged"),
        (lambda text: text.replace("index", "row"), "damaged"),
        (lambda text: "", "damaged"),
    ],
)
def test_predictions_of_another_set_are_refused(
    tmp_path: Path,
    study: tuple[list[RunFolder], Layout],
    change: Callable[[str], str],
    message: str,
) -> None:
    write_submissions(*study, SPECS, tmp_path)
    before = (tmp_path / SUBMISSIONS / "README.md").read_bytes()
    path = study[0][2].path / TEST_PREDICTIONS
    path.write_text(change(path.read_text()))
    with pytest.raises(InputError, match=rf"-cola-ce/{TEST_PREDICTIONS}: .*{message}"):
        write_submissions(*study, SPECS, tmp_path)
    assert (tmp_path / SUBMISSIONS / "README.md").read_bytes() == before
    without = SPECS | specs("cola", submission=None)
    write_submissions(*study, without, tmp_path)
    assert list(read_zip(tmp_path / SUBMISSIONS / "tiny.ce.zip")) == ["RTE.tsv"]


def test_a_study_without_test_sets_has_no_submission(
    tmp_path: Path, study: tuple[list[RunFolder], Layout]
) -> None:
    runs, layout = study
    with pytest.raises(InputError, match=r"no run has predictions .*source\.test: true"):
        write_submissions(runs[-1:], layout, SPECS, tmp_path)
    assert not (tmp_path / SUBMISSIONS).exists()
