"""Predictions of GLUE's test sets as the files that its server takes (https://gluebenchmark.com).

A file is tab-separated, with the columns `index` and `prediction` and one row per row of the test
set, numbered from 0 in its order. Its name and the spelling of its labels are the task's
`submission` (tasks.yaml). The files of one encoder and method form one zip.
"""

import csv
import zipfile
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path

from acl_bert.data.sources import splits_of
from acl_bert.data.spec import Source, TaskSpec, registry
from acl_bert.errors import InputError
from acl_bert.files import atomic_folder
from acl_bert.runs.files import TEST_COLUMNS, TEST_PREDICTIONS, RunFolder, name_path
from acl_bert.runs.results import Metrics
from acl_bert.study.layout import METRIC_NAMES, Layout

SUBMISSIONS = "submissions"

# A whole submission also has files of tasks that the paper leaves out: similarity, Winograd, and
# the diagnostic set, which a model of MNLI answers.
OTHER_FILES = ("STS-B.tsv", "WNLI.tsv", "AX.tsv")


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

    `runs` are finished runs of the study. Of a task's seeds the one with the best selection score
    is submitted, the lowest of equals; of several exits, the last. Variants have no submission.
    Raises InputError where no run has predictions of a test set, or lacks some of its rows.
    """
    found: dict[tuple[str, str, str], list[tuple[RunFolder, Metrics]]] = defaultdict(list)
    for run in runs:
        metrics = run.metrics()
        if specs[metrics["task"]].submission and (run.path / TEST_PREDICTIONS).is_file():
            found[metrics["task"], metrics["encoder"], metrics["method"]].append((run, metrics))
    if not found:
        raise InputError(
            "no run has predictions of a test set that GLUE's server scores; "
            "set source.test: true and run the study again"
        )
    zips: dict[tuple[str, str], dict[str, str]] = defaultdict(dict)  # content by file name
    origins: dict[tuple[str, str], list[str]] = defaultdict(list)
    for task, encoder, method in layout.part("plain", "student", "multi_exit").in_order():
        if seeds := found.get((task, encoder, method)):
            run, metrics = max(seeds, key=lambda x: (x[1]["selection"]["value"], -x[1]["seed"]))
            files = _files(run.path / TEST_PREDICTIONS, specs[task])
            zips[encoder, method] |= files
            origin = _origin(metrics, len(seeds))
            origins[encoder, method] += [f"| {name} | {origin} |" for name in files]
    with atomic_folder(folder / SUBMISSIONS) as aside:
        text = _README.format(study=layout.study)
        for (encoder, method), files in zips.items():
            name = f"{encoder}.{method}.zip"
            _write_zip(aside / name, files)
            title = f"{name}: {layout.methods[method]}, {layout.encoders[encoder]}"
            text += _SECTION.format(
                title=title,
                rows="\n".join(origins[encoder, method]),
                missing=", ".join(name for name in _all_files() if name not in files),
            )
        text += "".join(f"\n{note}\n" for note in layout.notes())
        (aside / "README.md").write_text(text, encoding="utf-8")


def _files(path: Path, spec: TaskSpec) -> dict[str, str]:
    """Content by file name, for each of the task's test sets that a run has predicted."""
    assert spec.submission is not None
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
    files = {}
    for split, name in spec.submission.files.items():
        if split not in predicted:
            continue
        if [index for index, _ in predicted[split]] != list(range(spec.rows[split])):
            raise InputError(
                f"{path}: {len(predicted[split])} rows of {split}, but the server wants the "
                f"{spec.rows[split]} of the whole set, in its order; give the task the whole file "
                f"and run it again, or leave it out with tasks.{spec.id}.submission: null"
            )
        lines = ["index\tprediction", *(f"{index}\t{label}" for index, label in predicted[split])]
        files[name] = "\n".join(lines) + "\n"
    return files


def _origin(metrics: Metrics, seeds: int) -> str:
    """The README's columns about the run, one of `seeds`, that a file's predictions are from."""
    configuration = metrics["task"], metrics["encoder"], metrics["method"]
    name = name_path(Path(), *configuration, metrics["seed"]).as_posix()
    selection = metrics["selection"]
    metric = METRIC_NAMES.get(selection["metric"], selection["metric"])
    return (
        f"{metrics['seed']}, of {seeds} | {metric} {100 * selection['value']:.2f} "
        f"| {selection['epoch']} | `{name}` | `{metrics['run_hash'][:12]}`"
    )


def _write_zip(path: Path, files: Mapping[str, str]) -> None:
    """The same files always give the same bytes."""
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in files.items():
            entry = zipfile.ZipInfo(name)  # dated 1980
            entry.external_attr = 0o644 << 16  # readable once it is unpacked
            archive.writestr(entry, content, zipfile.ZIP_DEFLATED)


def _all_files() -> list[str]:
    """The files of a whole submission."""
    submissions = [spec.submission for spec in registry().values() if spec.submission]
    return [*(name for each in submissions for name in each.files.values()), *OTHER_FILES]


_README = """\
# GLUE submissions: {study}

Predictions of GLUE's test sets by the best epoch's model, for https://gluebenchmark.com; one zip \
per encoder and method. Of a task's seeds the one is taken that is best on the rows that chose the \
epoch (selection, in percent); of several exits, the last.
"""
_SECTION = """
## {title}

| file | seed | selection | epoch | run | hash |
| --- | --- | --- | --- | --- | --- |
{rows}

Missing for a whole submission: {missing}.
"""
