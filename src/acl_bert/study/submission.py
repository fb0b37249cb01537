"""Predictions of GLUE's test sets as the files that its server takes (https://gluebenchmark.com).

A file is tab-separated, with the header `index`, `prediction` and a row for every row of the test
set, numbered from 0 in its order. How it is called and how its labels are spelled is the task's
`submission` (tasks.yaml). All files of a submission lie in one zip, which holds nothing else.
"""

import csv
import zipfile
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from acl_bert.data.sources import splits_of
from acl_bert.data.spec import Source, TaskSpec, registry
from acl_bert.errors import InputError
from acl_bert.files import atomic_folder
from acl_bert.runs.files import TEST_COLUMNS, TEST_PREDICTIONS, RunFolder, name_path
from acl_bert.runs.results import Metrics
from acl_bert.study.layout import METRIC_NAMES, Layout

SUBMISSIONS = "submissions"

# A whole submission has these too, of tasks that are not classification by one or two texts, or
# that the paper leaves out: similarity, Winograd, and the diagnostic set (by a model of MNLI).
OTHER_FILES = ("STS-B.tsv", "WNLI.tsv", "AX.tsv")


class File(NamedTuple):
    """A file of the server's, and the README's row that says which run it is of."""

    name: str
    content: str
    origin: str


def submitted_tasks(specs: Mapping[str, TaskSpec], source: Source) -> list[str]:
    """The tasks that the server scores and whose test set the source has."""
    return [
        name
        for name, spec in specs.items()
        if spec.submission and set(spec.submission.files) & set(splits_of(spec, source))
    ]


def write_submissions(
    runs: Iterable[RunFolder], layout: Layout, specs: Mapping[str, TaskSpec], folder: Path
) -> None:
    """Write `<encoder>.<method>.zip` and README.md to `folder / SUBMISSIONS`, replacing it whole.

    `run_folders` are finished runs of the study. Of a task's seeds the one with the best selection
    score is taken, the lowest of equals; a method with several exits has its last one's
    predictions. Variants have no submission. Raises InputError where no run has predictions of a
    test set, or one has those of a part of it.
    """
    found: dict[tuple[str, str, str], list[tuple[RunFolder, Metrics]]] = defaultdict(list)
    for run in runs:
        metrics = run.metrics()
        if specs[metrics["task"]].submission and (run.path / TEST_PREDICTIONS).is_file():
            found[metrics["task"], metrics["encoder"], metrics["method"]].append((run, metrics))

    zips: dict[tuple[str, str], list[File]] = defaultdict(list)
    for cell in layout.part("plain", "student", "multi_exit").in_order():
        if cell not in found:
            continue
        task, encoder, method = cell
        run, metrics = max(
            found[cell], key=lambda pair: (pair[1]["selection"]["value"], -pair[1]["seed"])
        )
        origin = _origin(metrics, len(found[cell]))
        zips[encoder, method] += [
            File(name, content, f"| {name} | {origin} |")
            for name, content in _contents(run, specs[task])
        ]
    if not zips:
        raise InputError(
            "no run has predictions of a test set that GLUE's server scores; "
            "set source.test: true and run the study again"
        )
    with atomic_folder(folder / SUBMISSIONS) as aside:
        for (encoder, method), files in zips.items():
            _write_zip(aside / f"{encoder}.{method}.zip", files)
        (aside / "README.md").write_text(_readme(layout, zips), encoding="utf-8")


def _contents(run: RunFolder, spec: TaskSpec) -> Iterator[tuple[str, str]]:
    """Name and content of the file for each test set that the run has predicted."""
    assert spec.submission is not None
    path = run.path / TEST_PREDICTIONS
    predicted: dict[str, list[tuple[int, str]]] = defaultdict(list)
    try:
        with path.open(encoding="utf-8", newline="") as stream:
            header, *rows = csv.reader(stream)
        if tuple(header) != TEST_COLUMNS:
            raise ValueError(f"columns are {', '.join(header)}")
        for split, index, prediction in rows:
            predicted[split].append((int(index), spec.submission.labels[int(prediction)]))
    except (ValueError, IndexError) as error:
        raise InputError(f"{path}: damaged ({error}); run it again") from error
    for split, name in spec.submission.files.items():
        if split not in predicted:
            continue
        if [index for index, _ in predicted[split]] != list(range(spec.rows[split])):
            raise InputError(
                f"{path}: {len(predicted[split])} rows of {split}, and the server wants the "
                f"{spec.rows[split]} of the whole set, in its order; give the task the whole file "
                f"and run it again, or leave it out with tasks.{spec.id}.submission: null"
            )
        lines = ["index\tprediction", *(f"{index}\t{label}" for index, label in predicted[split])]
        yield name, "\n".join(lines) + "\n"


def _origin(metrics: Metrics, seeds: int) -> str:
    """Which run a file is of, among those of so many seeds."""
    selection = metrics["selection"]
    run = name_path(
        Path(), metrics["task"], metrics["encoder"], metrics["method"], metrics["seed"]
    ).as_posix()
    metric = METRIC_NAMES.get(selection["metric"], selection["metric"])
    return (
        f"{metrics['seed']}, of {seeds} | {metric} {100 * selection['value']:.2f} "
        f"| {selection['epoch']} | `{run}` | `{metrics['run_hash'][:12]}`"
    )


def _write_zip(path: Path, files: Iterable[File]) -> None:
    """The same bytes for the same files, whenever they are written."""
    with zipfile.ZipFile(path, "w") as archive:
        for file in files:
            entry = zipfile.ZipInfo(file.name)  # dated 1980
            entry.external_attr = 0o644 << 16  # readable once it is unpacked
            archive.writestr(entry, file.content, zipfile.ZIP_DEFLATED)


def _readme(layout: Layout, zips: Mapping[tuple[str, str], list[File]]) -> str:
    submissions = [spec.submission for spec in registry().values() if spec.submission]
    whole = [*(name for each in submissions for name in each.files.values()), *OTHER_FILES]
    lines = [
        f"# GLUE submissions: {layout.study}",
        "",
        "Predictions of GLUE's test sets by the best epoch's model, for https://gluebenchmark.com; "
        "a zip for each encoder and method. Of a task's seeds the one is taken that is best on the "
        "rows that chose the epoch (selection, in percent); of several exits, the last.",
    ]
    for (encoder, method), files in zips.items():
        written = {file.name for file in files}
        lines += [
            "",
            f"## {encoder}.{method}.zip: {layout.methods[method]}, {layout.encoders[encoder]}",
            "",
            "| file | seed | selection | epoch | run | hash |",
            "| --- | --- | --- | --- | --- | --- |",
            *(file.origin for file in files),
            "",
            f"Missing for a whole submission: {', '.join(n for n in whole if n not in written)}.",
        ]
    for note in layout.notes():
        lines += ["", note]
    return "\n".join([*lines, ""])
