# What every stage needs: the checked study, the names in paths, and the answers about its jobs.
import json
import os
import re
import shlex
import sys
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

from snakemake.exceptions import WorkflowError

# Jobs run with this source tree, installed or not, and with this very interpreter, activated or
# not, unless they are given an environment of their own (--software-deployment-method).
SOURCE = f"{workflow.basedir}/src"
sys.path.insert(0, SOURCE)
PREFIX = f"set -euo pipefail; export PYTHONPATH={shlex.quote(SOURCE)}; "
# A job's shell has to survive a SIGTERM that warns the training: if the shell ended, the training
# would be killed before it has written its checkpoint.
PREFIX += "trap : TERM; "
# Jobs that train are forks of one process of this workflow, see src/acl_bert/starting/.
PREFIX += f"export ACL_BERT_OWNER={os.getpid()}; "
if not workflow.deployment_settings.deployment_method:
    PREFIX += f"export PATH={shlex.quote(os.path.dirname(sys.executable))}:$PATH; "
shell.prefix(PREFIX)

# Nothing imported here imports torch: a dry run must be quick.
from acl_bert import processes
from acl_bert.runs import files as run_files
from acl_bert.runs.store import Store
from acl_bert.errors import InputError
from acl_bert.files import write_text
from acl_bert.config.deviations import deviations
from acl_bert.config.study import load_study, write_study
from acl_bert.config.yaml_file import read_yaml
from acl_bert.study.exhibits import figures_of, tables_of
from acl_bert.study.layout import study_layout
from acl_bert.planning.hours import Slots
from acl_bert.planning.jobs import Jobs
from acl_bert.study.planned import Run
from acl_bert.study.submission import submitted_tasks
from acl_bert.tracking.beside import TrackerProcess

# A scheduler sends its warning to a job's Snakemake, which has to pass it on. Not where that
# Snakemake submits a step of its own, as on SLURM: the step has a Snakemake again, and srun, which
# starts it, would kill the step. On one machine SIGTERM has Snakemake's meaning: jobs are finished.
if workflow.remote_exec:
    processes.pass_on(lambda: workflow.local_exec)


@contextmanager
def explained():
    """An error that the user can mend, without a traceback."""
    try:
        yield
    except InputError as error:
        raise WorkflowError(str(error))


with explained():
    for path in workflow.configfiles:
        # Refuses what Snakemake's own reader accepts, such as a key twice.
        read_yaml(Path(path))
    STUDY = load_study(config, origin=", ".join(map(str, workflow.configfiles)))

STUDY_DIR = Path("results", STUDY.name)
STUDY_FILE = f"{STUDY_DIR}/config.yaml"
CONFIGURATION = ("{task}", "{encoder}", "{method}")
DATA = str(run_files.data_path(STUDY_DIR, "{task}"))
TOKENS = str(run_files.tokens_path(STUDY_DIR, "{task}", "{encoder}"))
# The small files that name the finished runs of the store: no rule ever makes, or removes, a run.
RUN = str(run_files.name_path(STUDY_DIR, *CONFIGURATION, "{seed}"))
TUNING = run_files.tuning_path(STUDY_DIR, *CONFIGURATION)
TUNING_RUN = str(run_files.tuning_name_path(TUNING, "{weight}", "{seed}"))
if not workflow.remote_exec:
    for fault in Store.beside(STUDY_DIR).forget_lost(STUDY_DIR):
        print(fault, file=sys.stderr)
LAYOUT = study_layout(STUDY)
# What tables and figures depend on besides the runs.
SHOWN = json.dumps(asdict(LAYOUT), default=sorted)
# The tasks whose test sets are predicted, and how GLUE's server wants them.
SUBMITTED = {
    task: STUDY.task_specs[task].submission.model_dump()
    for task in submitted_tasks(STUDY.task_specs, STUDY.source)
}
CLAIMS = f"{workflow.basedir}/config/claims.yaml"
# What may run at a time. A submitted job is not told how many others may.
GIVEN = {name: each.value for name, each in workflow.global_resources.items()}
JOBS = Jobs(
    STUDY,
    STUDY_DIR,
    Slots(
        jobs=1 if workflow.remote_exec else GIVEN["_nodes"],
        cores=GIVEN["_cores"],
        gpus=GIVEN.get("gpu"),
    ),
)
TRACKER = TrackerProcess(STUDY_FILE, STUDY_DIR / "logs" / "tracking.log")


wildcard_constraints:
    task="|".join(STUDY.tasks),
    encoder="|".join(STUDY.encoders),
    method="|".join(map(re.escape, sorted(STUDY.method_rows))),
    seed=r"\d+",
    weight=r"[0-9.e+-]+",


def run_results(of=STUDY.method_rows):
    """The files that name the finished runs of the study, or of some of its methods."""
    return [
        str(run_files.name_path(STUDY_DIR, *cell))
        for cell in STUDY.cells()
        if cell[2] in of
    ]


def runs_to_train():
    """The runs whose jobs are about to start."""
    return [
        Run.of_wildcards(job.wildcards_dict)
        for job in workflow.dag.needrun_jobs()
        if job.rule.name in ("finetune", "tuning_run")
    ]


def short_runs(wildcards):
    """The group of a short run. `--group-components short=N` submits N of a group together."""
    group = JOBS.group(wildcards)
    if group:
        # Snakemake takes a group's pattern for N, and this function is none.
        workflow.parent_groupids[group] = "short"
    return group


def with_caption(exhibit, entry, kind, endings):
    """The files of a table or figure, in Snakemake's report, which reads captions from files."""
    caption = Path(".snakemake", "captions", f"{exhibit.name}_{kind}.rst").absolute()
    if workflow.is_main_process:
        write_text(caption, entry.caption)
    return report(
        expand(f"{STUDY_DIR}/{kind}/{exhibit.name}.{{ending}}", ending=endings),
        caption=str(caption),
        category=exhibit.category,
    )
