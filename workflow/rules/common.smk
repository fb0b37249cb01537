# What every stage needs: the checked study, the names in paths, and the parameters of a job.
import json
import os
import re
import shlex
import subprocess
import sys
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from snakemake.exceptions import WorkflowError

# Jobs run with this source tree, installed or not, and with this very interpreter, activated or
# not, unless they are given an environment of their own (--software-deployment-method).
SOURCE = os.path.join(os.path.dirname(workflow.main_snakefile), "src")
sys.path.insert(0, SOURCE)
PREFIX = f"set -euo pipefail; export PYTHONPATH={shlex.quote(SOURCE)}; "
# A job's shell must outlive a warning that reaches it, as what it waits for does: a shell that ends
# takes the training with it, which is about to write its checkpoint.
PREFIX += "trap : TERM; "
# Jobs that train are forks of one process of this workflow, see src/acl_bert/starting/.
PREFIX += f"export ACL_BERT_OWNER={os.getpid()}; "
if not workflow.deployment_settings.deployment_method:
    PREFIX += f"export PATH={shlex.quote(os.path.dirname(sys.executable))}:$PATH; "
shell.prefix(PREFIX)

# Nothing imported here imports torch: a dry run must be quick.
from acl_bert import processes
from acl_bert.runs import files as run_files
from acl_bert.runs.code import running_code
from acl_bert.runs.store import Store
from acl_bert.errors import InputError
from acl_bert.encoders import encoder_fingerprint, fetch_encoder
from acl_bert.config.deviations import deviations
from acl_bert.config.study import load_study, write_study
from acl_bert.config.yaml_file import read_yaml
from acl_bert.study.layout import layout_of
from acl_bert.planning.disk import check_room, room
from acl_bert.planning.hours import Costs, Slots
from acl_bert.planning.sizes import Sizes
from acl_bert.study.planned import Run, runs_of
from acl_bert.study.submission import submitted_tasks
from acl_bert.data.prepare import determinants

# A scheduler warns the Snakemake of a job. Not where that one submits a step of its own, as on
# SLURM: the step has a Snakemake again, and srun, which starts it, takes SIGTERM for an order to
# kill it. On one machine SIGTERM means what Snakemake says: its jobs are done to the end.
if workflow.remote_exec:
    processes.pass_on(lambda: workflow.local_exec)


@contextmanager
def explained():
    """What the user is to mend, as Snakemake says it: without a traceback."""
    try:
        yield
    except InputError as error:
        raise WorkflowError(str(error))


with explained():
    for path in workflow.configfiles:
        # Refuses what Snakemake's own reader takes, such as a key twice.
        read_yaml(Path(path))
    STUDY = load_study(config, origin=", ".join(map(str, workflow.configfiles)))

STUDY_DIR = Path("results", STUDY.name)
STUDY_FILE = f"{STUDY_DIR}/config.yaml"
CELL = ("{task}", "{encoder}", "{method}")
DATA = str(run_files.data_path(STUDY_DIR, "{task}"))
TOKENS = str(run_files.tokens_path(STUDY_DIR, "{task}", "{encoder}"))
# The small files that name the finished runs of the store: no rule ever makes, or removes, a run.
RUN = str(run_files.name_path(STUDY_DIR, *CELL, "{seed}"))
TUNING = run_files.tuning_path(STUDY_DIR, *CELL)
TUNING_RUN = str(run_files.tuning_name_path(TUNING, "{weight}", "{seed}"))
LAMBDA = f"{TUNING}/{run_files.LAMBDA}"
if not workflow.remote_exec:
    for fault in Store.beside(STUDY_DIR).forget_lost(STUDY_DIR):
        print(fault, file=sys.stderr)
SHOWN = STUDY.shown()
LAYOUT = layout_of(STUDY.name, **SHOWN | {"tasks": {}})
TABLES, FIGURES = LAYOUT.outputs
CLUSTERED = LAYOUT.and_variants(LAYOUT.clusters)
# The tasks whose test sets are predicted, and how GLUE's server wants them.
SUBMITTED = {
    task: STUDY.task_specs[task].submission.model_dump()
    for task in submitted_tasks(STUDY.task_specs, STUDY.source)
}
CLAIMS = f"{workflow.basedir}/config/claims.yaml"
CAPTIONS = f"{workflow.basedir}/workflow/report"
REPORT_CATEGORIES = {
    "finetuning": "Fine-tuning",
    "multi_exit": "Exits",
    "layer_scores": "Exits",
    "quality_speed": "Early exiting",
    "claims": "Claims",
    "audit": "Claims",
    "gradients": "Analyses",
    "sensitivity": "Analyses",
    "ablation": "Analyses",
    "clusters": "Analyses",
}
# What may run at a time. A job that was submitted is not told how many others may be.
GIVEN = {name: each.value for name, each in workflow.global_resources.items()}
SLOTS = Slots(
    jobs=1 if workflow.remote_exec else GIVEN["_nodes"],
    cores=GIVEN["_cores"],
    gpus=GIVEN.get("gpu"),
)
# Runs whose jobs may last for less are submitted together, in minutes.
SHORT_MINUTES = 20
SIZES = Sizes(STUDY, STUDY_DIR)
# Jobs that train need no network: what comes from it was fetched at the start, or by `prepare` and
# `tokenise`.
OFFLINE = "HF_HUB_OFFLINE=1 "


def one_of(names):
    """A wildcard's values; nothing matches where there are none."""
    return "|".join(map(re.escape, sorted(names))) or "(?!)"


wildcard_constraints:
    task="|".join(STUDY.tasks),
    encoder="|".join(STUDY.encoders),
    method=one_of(STUDY.method_rows),
    seed=r"\d+",
    weight=r"[0-9.e+-]+",


def run_results(of=STUDY.method_rows):
    """What shows that every run of the study, or of some methods, is finished."""
    return [
        str(run_files.name_path(STUDY_DIR, *cell))
        for cell in STUDY.cells()
        if cell[2] in of
    ]


def teacher_run(wildcards):
    """The run that comes first, where there is one. What is read of it lies in the store."""
    teacher = STUDY.method_row(wildcards.method).teacher
    return (
        RUN.format(**dict(wildcards.items()) | {"method": teacher}) if teacher else []
    )


def run_priority(wildcards):
    """Seed by seed, students before teachers: so few teachers' models are there at a time."""
    seeds = (*STUDY.tuning.seeds, *STUDY.seeds)
    later = len(seeds) - seeds.index(int(wildcards.seed))
    return 2 * later + (STUDY.method_row(wildcards.method).teacher is not None)


@cache
def on_gpu(device):
    """Whether training with this `training.device` is on a GPU; nvidia-smi takes its time."""
    return SLOTS.on_gpu(device)


# What the hooks of the Snakefile call; on a cluster's nodes there are none.
def runs_to_train():
    """Those whose jobs are about to start."""
    jobs = workflow.dag.needrun_jobs()
    return runs_of((job.rule.name, job.wildcards_dict) for job in jobs)


def fetch_encoders():
    """Have what is to be trained at hand before the first of many jobs waits for a GPU."""
    for name in sorted({run.encoder for run in runs_to_train()}):
        encoder = STUDY.encoder(name)
        with explained():
            fetch_encoder(encoder.path, encoder.revision)


def check_disk():
    """Refuse to start what the disk cannot hold."""
    device = STUDY.training.device
    at_a_time = SLOTS.at_a_time(on_gpu(device), STUDY.training.threads)
    to_come = [run for run in runs_to_train() if not run.path(STUDY_DIR).is_file()]
    with explained():
        check_room(room(SIZES, to_come, costs_on(device), at_a_time))


TRACKER = []


def start_tracker():
    """Mirror the study into MLflow from its files, for as long as this workflow lasts."""
    if STUDY.tracking.enabled:
        log = STUDY_DIR / "logs" / "tracking.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "acl_bert", "sync-tracking", "--watch"]
        command += ["--config", STUDY_FILE, "--owner", str(os.getpid())]
        with log.open("w") as said:
            TRACKER.append(
                subprocess.Popen(
                    command,
                    stdout=said,
                    stderr=said,
                    env=os.environ | {"PYTHONPATH": SOURCE},
                    start_new_session=True,
                )
            )


def end_tracker():
    """Let it take what came last. It gives up by itself where MLflow is away."""
    for tracker in TRACKER:
        tracker.terminate()
        try:
            failed = tracker.wait(timeout=90) != 0
        except subprocess.TimeoutExpired:
            tracker.kill()
            failed = True
        if failed:
            print(
                f"MLflow is not up to date: see {STUDY_DIR}/logs/tracking.log",
                file=sys.stderr,
            )


def data_settings(wildcards):
    """What prepared rows depend on, the content of local files included but not their place."""
    spec = STUDY.task_spec(wildcards.task)
    return json.dumps(determinants(spec, STUDY.source, STUDY.selection))


def tokens_settings(wildcards):
    """What tokens depend on besides the rows."""
    encoder = STUDY.encoder(wildcards.encoder)
    fingerprint = encoder_fingerprint(encoder.path, encoder.revision)
    return json.dumps([fingerprint, STUDY.training_of(wildcards.task).max_length])


@cache
def cell_settings(task, encoder, method, weight, tuning):
    """The parameters of a cell's runs but for their seeds; checked once, since runs are many."""
    seed = (STUDY.tuning.seeds if tuning else STUDY.seeds)[0]
    settings = STUDY.run_settings(task, encoder, method, seed, weight).determinants()
    return {name: value for name, value in settings.items() if name != "seed"}


def run_settings(wildcards):
    """The one provider of a run's parameters: a run is repeated when, and only when, these change."""
    run = run_of(wildcards)
    settings = cell_settings(*run.cell, run.weight, STUDY.is_tuning_seed(run.seed))
    code = running_code().digest if STUDY.code == "same" else None
    return json.dumps([settings | {"seed": run.seed}, code])


def run_of(wildcards):
    """The run that a job trains."""
    return runs_of(
        [("tuning_run" if "weight" in wildcards.keys() else "finetune", wildcards)]
    )[0]


@cache
def costs_on(device):
    """What runs cost on the device that this `training.device` means."""
    return Costs(SIZES, on_gpu(device))


@cache
def minutes(task, encoder, method, tuning):
    """For how long a run may last, generously; all seeds alike."""
    run = Run(task, encoder, method, (STUDY.tuning.seeds if tuning else STUDY.seeds)[0])
    with explained():
        return costs_on(STUDY.training_of(task).device).limit_minutes(run)


def job_minutes(wildcards):
    tuning = STUDY.is_tuning_seed(int(wildcards.seed))
    return minutes(wildcards.task, wildcards.encoder, wildcards.method, tuning)


def run_gpus(wildcards):
    """How many GPUs a run takes: one where it trains on one, of this machine or of a cluster."""
    return int(on_gpu(STUDY.training_of(wildcards.task).device))


def run_minutes(wildcards, attempt):
    """A run's time limit: longer at each attempt."""
    return attempt * job_minutes(wildcards)


def short_runs(wildcards):
    """The group of a short run: those of its task, encoder and method. A long run has none.

    None of these waits for another. `--group-components short=N` says how many are submitted
    together; it takes a group's pattern, and this function is one.
    """
    if job_minutes(wildcards) >= SHORT_MINUTES:
        return None
    stage = "tuning" if "weight" in wildcards.keys() else "runs"
    group = "_".join((stage, wildcards.task, wildcards.encoder, wildcards.method))
    workflow.parent_groupids[group] = "short"
    return group


def chosen_lambda(wildcards):
    """The choice that a tuned method's runs wait for; nothing for the others."""
    tuned = STUDY.lambda_of(wildcards.method)
    if tuned is None:
        return []
    return LAMBDA.format(**dict(wildcards.items()) | {"method": tuned})
