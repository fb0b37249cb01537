"""The command line: one verb a stage, the same ones that the workflow's rules call.

Every verb imports what it needs when it is called, so that help comes at once.
"""

import argparse
import errno
import os
import shlex
import shutil
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from acl_bert import __version__
from acl_bert.errors import AclBertError, InputError, Interrupted
from acl_bert.files import to_json
from acl_bert.starting.client import OWNER

# A full disk, a spent quota, a file larger than allowed.
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def prepare(args: argparse.Namespace) -> None:
    from acl_bert.config.study import load_study
    from acl_bert.data.prepare import prepare
    from acl_bert.runs.files import data_path

    study = load_study(args.config)
    spec = study.task_spec(args.task)
    prepare(spec, study.source, study.selection, data_path(args.results / study.name, args.task))


def tokenise(args: argparse.Namespace) -> None:
    from acl_bert.config.study import load_study
    from acl_bert.data.tokens import tokenise
    from acl_bert.encoders import encoder_fingerprint, resolve_path
    from acl_bert.runs.files import data_path, tokens_path

    study = load_study(args.config)
    encoder = study.encoder(args.encoder)
    folder = args.results / study.name
    tokenise(
        data_path(folder, args.task),
        resolve_path(encoder.path),
        encoder.revision,
        study.training_of(args.task).max_length,
        tokens_path(folder, args.task, args.encoder),
        encoder=args.encoder,
        encoder_fingerprint=encoder_fingerprint(encoder.path, encoder.revision),
    )


def finetune(args: argparse.Namespace) -> None:
    from acl_bert.config.study import load_study
    from acl_bert.runs.files import chosen_lambda, tuning_path

    study = load_study(args.config)
    folder = args.results / study.name
    args.encoder = args.encoder or next(iter(study.encoders))
    cell = (args.task, args.encoder, args.method)
    settings = study.run_settings(*cell, args.seed, args.weight)
    if args.tuning and args.weight is None:
        raise InputError("--tuning needs the --lambda that is tried")
    if args.weight is None and (tuned := study.lambda_of(args.method)):
        chosen_lambda(
            tuning_path(folder, args.task, args.encoder, tuned)
        )  # before anything is made
    if not args.prepared:
        _bring_up_to_date(args, study)

    _claim_gpu(settings.training)

    from transformers.utils import logging

    from acl_bert.runs.prune import prune_teachers
    from acl_bert.runs.store import Store
    from acl_bert.training.jobs import study_job
    from acl_bert.training.obtain import Trainer

    logging.disable_progress_bar()
    job = study_job(study, folder, *cell, args.seed, args.weight, args.tuning)
    store = Store.beside(folder)
    trainer = Trainer(store, folder, study.code, study.checkpoints.every_minutes, _report)
    address = trainer.obtain(
        job, with_model=job.saves_model and study.keeps_model(args.method, args.encoder)
    )
    _report(f"{store.run(address).path}: finished")
    if job.name is None:
        _report("it is none of the study's runs, and not in its tables")
        return
    if study.keep_models == "none":
        prune_teachers(study, folder, *cell, args.seed)
    if study.tracking.enabled and OWNER not in os.environ:  # a workflow has a tracker
        args.watch = False
        try:
            sync_tracking(args)
        except InputError as error:
            _report(f"warning: {error}")


def _claim_gpu(training: Any) -> None:
    """Settle which of several GPUs this process sees, before anything imports torch."""
    from acl_bert.gpus import claim_gpu

    if training.device != "cpu" and (gpu := claim_gpu()):
        _report(f"takes GPU {gpu}")


def _bring_up_to_date(args: argparse.Namespace, study: Any) -> None:
    """Make what a run started by hand lacks. It reads all rows and weights to know."""
    from acl_bert.data.prepare import is_prepared
    from acl_bert.data.tokens import is_tokenised
    from acl_bert.encoders import encoder_fingerprint
    from acl_bert.runs.files import data_path, tokens_path

    folder, encoder = args.results / study.name, study.encoder(args.encoder)
    data, tokens = data_path(folder, args.task), tokens_path(folder, args.task, args.encoder)
    if not is_prepared(study.task_spec(args.task), study.source, study.selection, data):
        prepare(args)
    fingerprint = encoder_fingerprint(encoder.path, encoder.revision)
    if not is_tokenised(data, study.training_of(args.task).max_length, tokens, fingerprint):
        tokenise(args)


def _changed_settings(
    study: Any, run: Any, name: Path, cell: tuple[str, str, str, int]
) -> list[str]:
    """What the finished run of this name was trained with that is not what the study says now."""
    from pydantic import ValidationError

    from acl_bert.config.study import RunSettings
    from acl_bert.runs.store import key_of, read_name

    config = run.config()
    try:
        # A key that is newer than the run has its default.
        given = RunSettings.model_validate({n: config.get(n) for n in RunSettings.model_fields})
    except ValidationError:
        return ["version of this project"]
    weight = given.method.weight if study.lambda_of(cell[2]) else None
    settled = {name: getattr(given.training, name) for name in ("device", "precision")}
    wanted = study.run_settings(*cell, weight)
    training = wanted.training.model_copy(update=settled)
    before = given.determinants()
    after = wanted.model_copy(update={"training": training}).determinants()
    changed = [key for key in after if after[key] != before[key]]
    teacher, taught_by = wanted.method.teacher, run.metrics().get("teacher")
    if teacher and taught_by and (now := name.parents[1] / teacher / name.name).is_file():
        changed += ["teacher"] if key_of(read_name(now)["run"]) != key_of(taught_by) else []
    return changed


def _report(line: str) -> None:
    from tqdm import tqdm

    tqdm.write(line)
    sys.stdout.flush()


def _make(target: str, config: Path) -> str:
    """The command, as a shell takes it."""
    return f"make {target} CONFIG={shlex.quote(str(config))}"


def choose_lambda(args: argparse.Namespace) -> None:
    from acl_bert.config.study import load_study
    from acl_bert.runs.files import tuning_path
    from acl_bert.runs.store import Store
    from acl_bert.study.tuning import choose_lambda

    study = load_study(args.config)
    cell = (args.task, args.encoder, args.method)
    study.run_settings(*cell, study.tuning.seeds[0])  # refuses a name that the study has not
    folder = args.results / study.name
    tuning, store = tuning_path(folder, *cell), Store.beside(folder)
    print("λ =", choose_lambda(store, tuning, study.tuning.lambdas, study.tuning.seeds))


def sync_tracking(args: argparse.Namespace) -> None:
    if args.watch:  # before MLflow is imported, which takes its time
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # of a terminal: for the workflow

    from acl_bert.config.study import load_study
    from acl_bert.tracking.store import StoreError, complaint, tracking_uri
    from acl_bert.tracking.sync import Tracker, only_tracker, watch

    study = load_study(args.config)
    folder = args.results / study.name
    if not folder.is_dir():
        raise InputError(f"{folder}: no such folder; run the study first")
    uri = tracking_uri(study.tracking.uri, folder)
    with only_tracker(folder, wait=args.watch) as alone:
        if not alone:
            print(f"{folder}: another process brings MLflow up to date with this study now")
        elif args.watch:
            os.nice(10)  # training comes first
            if not watch(Tracker(folder, uri, study), args.owner or os.getppid()):
                raise AclBertError(f"to complete it: {_make('sync-tracking', args.config)}")
        else:
            try:
                done = Tracker(folder, uri, study).sync()
            except StoreError as error:
                raise InputError(f"{complaint(uri, error)}; do it again once it can") from None
            print(done)
            if done.faults:
                raise InputError("\n".join(done.faults))


def ui(args: argparse.Namespace) -> None:
    from acl_bert.config.study import load_study
    from acl_bert.tracking.store import StoreError
    from acl_bert.tracking.ui import serve

    study = load_study(args.config)
    try:
        serve(study.tracking.uri, args.results / study.name, args.host, args.port)
    except StoreError as error:
        raise InputError(f"{error}; run the study first") from None


def prune(args: argparse.Namespace) -> None:
    from acl_bert.planning.disk import in_bytes
    from acl_bert.runs.prune import prunable

    folders = prunable(args.results, args.unnamed_runs)
    files = (path for folder in folders for path in folder.rglob("*") if path.is_file())
    size = in_bytes(sum(path.stat().st_size for path in files))
    for folder in folders:
        print(folder)
        if not args.dry_run:
            shutil.rmtree(folder, ignore_errors=True)
    print(f"{len(folders)} folders, {size} {'would be freed' if args.dry_run else 'freed'}")


def where(args: argparse.Namespace) -> None:
    folder = _folder(args)
    if not folder.is_dir():
        raise InputError(f"{folder}: no such folder; run the study first")
    for name in ("tables", "figures"):
        for path in sorted((folder / name).iterdir()) if (folder / name).is_dir() else []:
            print(path)
    print(f"All runs: {folder / 'runs.csv'}; in MLflow: {_make('ui', args.config)}")
    print(f"The report: {folder / 'report.html'}")


def collect(args: argparse.Namespace) -> None:
    from acl_bert.study.collect import collect

    collect(_runs(args), _folder(args))


def sweep(args: argparse.Namespace) -> None:
    from acl_bert.study.curves import write_curves

    write_curves(_runs(args), _layout(args), _folder(args))


def gradients(args: argparse.Namespace) -> None:
    from acl_bert.study.analyses.gradients import write_gradients

    layout = _layout(args)
    write_gradients(_runs(args, layout.observing), layout, _folder(args))


def clusters(args: argparse.Namespace) -> None:
    from acl_bert.study.analyses.clusters import write_clusters

    layout = _layout(args)
    of = layout.and_variants(layout.clusters)
    write_clusters(_runs(args, of), layout, _folder(args))


def _folder(args: argparse.Namespace) -> Path:
    from acl_bert.config.study import load_study

    return args.results / load_study(args.config).name


def _runs(args: argparse.Namespace, of: Sequence[str] | None = None) -> list[Any]:
    """The study's finished runs, or those of some methods.

    All where they must be complete, their contents checked; else those that are there, and were
    trained as the study says now.
    """
    from acl_bert.config.study import load_study
    from acl_bert.runs.files import name_path
    from acl_bert.runs.store import Store

    study = load_study(args.config)
    left_out = {} if args.complete else _left_out(study, args)
    folder = args.results / study.name
    store = Store.beside(folder)
    cells = (cell for cell in study.cells() if of is None or cell[2] in of)
    names = [name_path(folder, *cell) for cell in cells if cell not in left_out]
    return [store.named(name, args.complete) for name in names if args.complete or name.is_file()]


def _left_out(study: Any, args: argparse.Namespace) -> dict[tuple[str, str, str, int], str]:
    """The cells whose finished runs cannot be taken for the study's, and why."""
    from acl_bert.runs.files import name_path
    from acl_bert.runs.store import Store

    shown = study.shown()
    folder = args.results / study.name
    store = Store.beside(folder)
    names = {cell: name_path(folder, *cell) for cell in study.cells()}
    return {
        cell: fault
        for cell, name in names.items()
        if name.is_file() and (fault := _fault(study, shown, store, name, cell))
    }


def _fault(
    study: Any, shown: Any, store: Any, name: Path, cell: tuple[str, str, str, int]
) -> str | None:
    """What is wrong with a finished run's files, as far as tables and figures read them."""
    try:
        files = store.named(name)
        files.metrics()
        files.timings()
        if changed := _changed_settings(study, files, name, cell):
            return f"{name}: trained with another {' and '.join(changed)}"
        if cell[2] in shown["multi_exit"]:
            files.dev_logits()
        if cell[2] in study.observing and not files.history():
            return f"{files.history_path}: has no steps"
        if cell[2] in study.compared:
            files.representations()
    except InputError as error:
        return str(error)
    return None


def _layout(args: argparse.Namespace) -> Any:
    from acl_bert.config.study import load_study
    from acl_bert.study.layout import read_layout

    study = load_study(args.config)
    return read_layout(args.results / study.name, **study.shown())


def progress(args: argparse.Namespace) -> None:
    from acl_bert.config.study import load_study
    from acl_bert.study.planned import planned_runs
    from acl_bert.study.progress import progress

    study = load_study(args.config)
    print(progress(planned_runs(study), args.results / study.name))


def plan(args: argparse.Namespace) -> None:
    from acl_bert.config.study import load_study
    from acl_bert.planning.hours import Slots
    from acl_bert.planning.page import plan

    source = {"kind": "glue", "folder": str(args.glue_dir)}
    changes = {"source": source} if args.glue_dir else {}
    studies = [load_study(config, changes=changes) for config in args.config]
    slots = Slots(args.jobs, args.cores or len(os.sched_getaffinity(0)), args.gpus)
    print(plan(studies, args.results, slots, args.hardware))


def calibrate(args: argparse.Namespace) -> None:
    from acl_bert.config.study import load_study
    from acl_bert.files import write_json
    from acl_bert.runs.calibration import CALIBRATION

    study = load_study(args.config)

    from transformers.utils import logging

    from acl_bert.training.calibrate import calibrate
    from acl_bert.training.hardware import resolve_training

    logging.disable_progress_bar()
    training = resolve_training(study.training)
    found = {name: calibrate(encoder, training) for name, encoder in study.encoders.items()}
    for name, one in found.items():
        steps = ", ".join(f"{seconds:.3f} s at {length} tokens" for length, seconds in one["steps"])
        print(f"{name}: a CE step of {one['batch_size']} rows takes {steps}, on {one['device']}")
    write_json(args.results / study.name / CALIBRATION, found)


def tables(args: argparse.Namespace) -> Any:
    from acl_bert.study.tables import write_tables

    results, layout, folder = _results(args)
    found = _tables(args, results, layout)
    write_tables(found, results, layout, folder / "tables")
    return found


def _results(args: argparse.Namespace) -> tuple[Any, Any, Path]:
    from acl_bert.study.results import read_results

    layout, folder = _layout(args), _folder(args)
    return read_results(folder, layout), layout, folder


def _tables(args: argparse.Namespace, results: Any, layout: Any) -> Any:
    from acl_bert.study.claims.claims import load_claims
    from acl_bert.study.tables import study_tables

    return study_tables(results, layout, load_claims(args.claims))


def figures(args: argparse.Namespace) -> None:
    from acl_bert.study.figures import write_figures

    results, layout, folder = _results(args)
    write_figures(results, layout, folder / "figures")


def report(args: argparse.Namespace, found: Any = None) -> None:
    from acl_bert.config.deviations import deviations
    from acl_bert.config.study import load_study
    from acl_bert.study.claims.claims import load_claims
    from acl_bert.study.report.assemble import study_report
    from acl_bert.study.report.paper import write_paper
    from acl_bert.study.report.report import write_report

    study = load_study(args.config)
    results, layout, folder = _results(args)
    found = found or _tables(args, results, layout)
    captions = {path.stem: path.read_text("utf-8") for path in args.captions.glob("*.rst")}
    page = study_report(
        folder,
        layout,
        study.cells(),
        found,
        load_claims(args.claims),
        captions,
        deviations(study),
        _mirror_of(args, study),
        _left_out(study, args),
    )
    write_report(page, folder / "report.html")
    tables, figures = layout.outputs
    write_paper(folder, tables, figures, captions)


def _mirror_of(args: argparse.Namespace, study: Any) -> Any:
    from acl_bert.study.report.assemble import Mirror
    from acl_bert.tracking.browsing import RUN_HASH

    return Mirror(RUN_HASH, _make("ui", args.config)) if study.tracking.enabled else None


def submissions(args: argparse.Namespace) -> None:
    from acl_bert.config.study import load_study
    from acl_bert.study.submission import write_submissions

    specs = load_study(args.config).task_specs
    write_submissions(_runs(args), _layout(args), specs, _folder(args))


def analyse(args: argparse.Namespace) -> None:
    from acl_bert.config.study import load_study, write_study
    from acl_bert.study.claims.claims import load_claims

    load_claims(args.claims)  # before anything is written
    if not args.captions.is_dir():
        raise InputError(f"{args.captions}: no such folder; give --captions workflow/report")
    write_study(load_study(args.config), _folder(args) / "config.yaml")
    for gather in (collect, sweep, gradients, clusters):
        gather(args)
    found = tables(args)  # the claims' intervals take a while: once for both
    figures(args)
    report(args, found)
    where(args)


def predict(args: argparse.Namespace) -> None:
    if (args.criterion is None) != (args.threshold is None):
        raise InputError(
            "--criterion and --threshold go together; without both no text leaves early"
        )

    from transformers.utils import logging

    from acl_bert.inference.predict import Rule, predict_file

    logging.disable_progress_bar()
    rule = None if args.criterion is None else Rule(args.criterion, args.threshold)
    found = predict_file(
        _model_of(args.model) if args.model.match("seed-*.json") else args.model,
        args.input,
        args.output,
        args.text,
        args.quoting,
        rule,
        args.batch_size,
        args.threads,
    )
    print(
        f"{args.output}: {len(found.exits)} texts, {found.layers:.2f} of {found.depth} layers on "
        f"average, {found.speedup:.2f} times fewer than all"
    )


def _model_of(name: Path) -> Path:
    """The model of the run that a study's small file names."""
    from acl_bert.runs.store import STORE, Store, read_name

    for above in name.absolute().parents:
        if (above / STORE).is_dir():
            model = Store(above / STORE).model(read_name(name)["run"])
            if model.is_dir():
                return model
            raise InputError(
                f"{name}: {model} is not there; a study keeps it with keep_models: all"
            )
    raise InputError(f"{name}: no folder {STORE} beside its study; give a model's folder")


def schema(args: argparse.Namespace) -> None:
    from acl_bert.config.study import Study

    sys.stdout.write(to_json(Study.model_json_schema(by_alias=True)))


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="acl_bert", description=__doc__.splitlines()[0])
    parser.add_argument("--version", action="version", version=__version__)
    verbs = parser.add_subparsers(required=True, metavar="VERB")

    study = argparse.ArgumentParser(add_help=False)
    study.add_argument("--config", type=Path, required=True, help="the study's YAML file")
    study.add_argument("--results", type=Path, default=Path("results"), help="(%(default)s)")

    def verb(run: Callable[[argparse.Namespace], None], help: str, *needed: str) -> Any:
        name = run.__name__.replace("_", "-")
        parents = [] if run in (predict, schema, prune, plan) else [study]
        own = verbs.add_parser(name, help=help, description=help, parents=parents)
        own.set_defaults(run_verb=run)
        for key in needed:
            own.add_argument(f"--{key}", required=True, help=f"one of the study's {key}s")
        return own

    verb(prepare, "read, check and split a task's rows", "task")
    verb(tokenise, "tokenise a prepared task for an encoder", "task", "encoder")
    run = verb(finetune, "train and score one model", "task", "method")
    run.add_argument("--encoder", help="one of the study's encoders (its first)")
    run.add_argument("--seed", type=int, default=1, help="(%(default)s)")
    run.add_argument("--lambda", dest="weight", type=float, help="instead of the method's λ")
    run.add_argument(
        "--prepared", action="store_true", help="trust the rows and tokens that are there"
    )
    run.add_argument("--tuning", action="store_true", help="a run of the λ grid, kept apart")
    verb(choose_lambda, "choose λ from tuning runs", "task", "encoder", "method")
    gathering = (
        verb(collect, "gather runs.csv, exits.csv and timings.csv"),
        verb(sweep, "early_exit.csv: what early exiting costs and saves, from saved logits"),
        verb(gradients, "gradients.csv: the angles at every step, where a gate observes"),
        verb(submissions, "the files that GLUE's server takes, where test sets were predicted"),
        verb(clusters, "clusters.csv, tsne.csv: how classes part at the first quarter's exit"),
    )
    for each in gathering:
        each.add_argument(
            "--complete", action="store_true", help="fail where one of the study's runs is missing"
        )
    tables_verb = verb(tables, "write the tables from what was gathered")
    verb(figures, "draw the figures from what was gathered")
    report_verb = verb(report, "write the report, and what a paper includes")
    analyse_verb = verb(
        analyse, "gather the runs that are finished, then tables, figures and the report"
    )
    analyse_verb.set_defaults(complete=False)
    for each in (tables_verb, report_verb, analyse_verb):
        each.add_argument(
            "--claims",
            type=Path,
            default=Path("config", "claims.yaml"),
            help="the paper's claims (%(default)s)",
        )
    for each in (report_verb, analyse_verb):
        each.add_argument(
            "--captions",
            type=Path,
            default=Path("workflow", "report"),
            help="a folder with a caption for each table and figure (%(default)s)",
        )
    verb(progress, "say how many of the study's runs are done, and how long the rest will take")
    planned = verb(plan, "say what studies would take: runs, time, disk")
    planned.add_argument(
        "--config", type=Path, nargs="+", required=True, help="studies that share a store"
    )
    planned.add_argument("--results", type=Path, default=Path("results"), help="(%(default)s)")
    planned.add_argument("--cores", type=int, help="for all jobs together (all of this machine)")
    planned.add_argument("--gpus", type=int, default=1, help="that runs take (%(default)s)")
    planned.add_argument("--jobs", type=int, help="on a cluster: jobs in its queue at a time")
    planned.add_argument(
        "--glue-dir", type=Path, help="a folder in GLUE's TSV layout, instead of the study's source"
    )
    planned.add_argument(
        "--hardware", help="a GPU that costs.yaml knows, instead of what was measured"
    )
    verb(calibrate, "time steps of the study's encoders on this machine, for its plan")
    tracking = verb(sync_tracking, "bring MLflow up to date with the study's files")
    tracking.add_argument("--watch", action="store_true", help="until the workflow ends")
    tracking.add_argument("--owner", type=int, help="its process id (the parent of this one)")
    pruning = verb(
        prune, "remove models no study needs, damaged runs, unfinished runs of other code"
    )
    pruning.add_argument("--results", type=Path, default=Path("results"), help="(%(default)s)")
    pruning.add_argument("--dry-run", action="store_true", help="only say what would be removed")
    pruning.add_argument(
        "--unnamed-runs", action="store_true", help="and the finished runs that no study names"
    )
    verb(where, "say where a study's tables and figures are")
    pages = verb(ui, "serve MLflow's pages of the study")
    pages.add_argument(
        "--host",
        default="127.0.0.1",
        help="the address to listen on, such as 0.0.0.0 (%(default)s)",
    )
    pages.add_argument("--port", type=int, default=5000, help="(%(default)s)")
    serve = verb(
        predict, "label texts with a kept model, each at the first exit that is sure enough"
    )
    serve.add_argument(
        "--model",
        type=Path,
        required=True,
        help="a model's folder, or a study's file seed-<n>.json",
    )
    serve.add_argument("--input", type=Path, required=True, help=".txt, .csv, .tsv or .jsonl file")
    serve.add_argument("--output", type=Path, required=True, help="the CSV file to write")
    serve.add_argument("--text", nargs="+", default=[], help="the one or two columns of text")
    serve.add_argument("--quoting", choices=["none", "csv"], help="of a .tsv file, if it matters")
    serve.add_argument(
        "--criterion",
        choices=["entropy", "max_probability", "patience", "fixed"],
        help="when a text leaves; not given: it goes through all layers",
    )
    serve.add_argument(
        "--threshold",
        type=float,
        help="entropy (of 1) below it, probability above it, so many agreeing exits, or the exit",
    )
    serve.add_argument("--batch-size", type=int, default=32, help="(%(default)s)")
    serve.add_argument("--threads", type=int, help="of the CPU (torch's default)")
    verb(schema, "print the JSON schema of a study's config")
    return parser


def main(arguments: list[str] | None = None) -> int:
    args = build_parser().parse_args(arguments)
    try:
        args.run_verb(args)
    except Interrupted as stop:
        print(stop, file=sys.stderr)
        return 128 + stop.signal_number  # as a shell says that a process was killed
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    except AclBertError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2 if isinstance(error, InputError) else 1
    except OSError as error:  # a full disk, a folder that may not be written
        if error.filename is None:
            raise
        remedy = "; make room and run again, what is finished stays" if error.errno in FULL else ""
        print(f"error: {error.filename}: {error.strerror}{remedy}", file=sys.stderr)
        return 1
    return 0
