# What every stage needs: the checked study, the names in paths, and the parameters of a job.
import json
import os
import shutil
import sys

from snakemake.exceptions import WorkflowError

# Jobs run with this very interpreter and source tree, installed or not, activated or not.
SOURCE = os.path.join(os.path.dirname(workflow.main_snakefile), "src")
sys.path.insert(0, SOURCE)
shell.prefix(
    f"export PYTHONPATH='{SOURCE}' PATH='{os.path.dirname(sys.executable)}':\"$PATH\"; "
    "set -euo pipefail; "
)

# Nothing imported here imports torch: a dry run must be quick.
from acl_bert import run_files
from acl_bert.errors import InputError
from acl_bert.settings.study import load_study, write_study

try:
    STUDY = load_study(config, origin=", ".join(map(str, workflow.configfiles)))
except InputError as error:
    raise WorkflowError(str(error))

STUDY_DIR = f"results/{STUDY.name}"
STUDY_FILE = f"{STUDY_DIR}/config.yaml"
TUNING_DIR = f"{STUDY_DIR}/tuning/{{task}}/{{encoder}}/{{method}}"
# Runs share one GPU one after the other; without a GPU only the cores bound them.
GPU = 1 if STUDY.training.device != "cpu" and shutil.which("nvidia-smi") else 0
RUN_DIR = f"{STUDY_DIR}/runs/{{task}}/{{encoder}}/{{method}}/seed-{{seed}}"
RUN_FILES = [f"{RUN_DIR}/{name}" for name in run_files.PUBLISHED]
if STUDY.keep_models == "all":
    RUN_FILES.append(directory(f"{RUN_DIR}/{run_files.MODEL}"))


wildcard_constraints:
    task="|".join(STUDY.tasks),
    encoder="|".join(STUDY.encoders),
    method="|".join(STUDY.methods),
    seed=r"\d+",
    weight=r"[0-9.e-]+",


def run_folders():
    """Every run of the study."""
    return expand(
        RUN_DIR,
        task=STUDY.tasks,
        encoder=STUDY.encoders,
        method=STUDY.methods,
        seed=STUDY.seeds,
    )


def run_settings(wildcards):
    """The one provider of a run's parameters: a run is repeated when, and only when, these change."""
    weight = float(wildcards.weight) if "weight" in wildcards.keys() else None
    settings = STUDY.run_settings(
        wildcards.task, wildcards.encoder, wildcards.method, int(wildcards.seed), weight
    )
    return json.dumps(settings.determinants())


def chosen_lambda(wildcards):
    """The choice that a tuned method's runs wait for; nothing for the others."""
    if not STUDY.is_tuned(wildcards.method):
        return []
    return f"{TUNING_DIR}/lambda.json"
