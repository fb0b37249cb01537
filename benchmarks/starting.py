"""How long processes take to get going."""

import os
import subprocess
import sys
import time
from pathlib import Path

import rows
from measuring import Setup

from acl_bert.runs.files import HISTORY
from acl_bert.starting.client import OWNER

BARE = "import torch; from transformers import BertModel; import time; print(time.time())"


def bare_imports(_: int) -> float:
    """Seconds until torch and the model class are imported."""
    start = time.time()
    done = subprocess.run([sys.executable, "-c", BARE], capture_output=True, text=True, check=True)
    return float(done.stdout) - start


def start_of_training(setup: Setup, seed: int, by_template: bool = False) -> float:
    """Seconds from the process's start to step 1 of `acl_bert finetune`, which is then ended.

    history.csv gets its header when the model and the optimiser stand and the steps begin, and its
    rows only after some of them: the file's time is that of the start. `by_template`: as a job of
    the workflow that this process stands for. No two calls have one seed, since a run goes on.
    """
    folder = setup.config.parent
    command = [sys.executable, "-m", "acl_bert", "finetune", "--config", str(setup.config)]
    command += ["--results", str(folder), "--task", rows.TASK, "--method", "ce"]
    command += ["--seed", str(seed)]
    environment = os.environ | ({OWNER: str(os.getpid())} if by_template else {})
    with (folder / "finetune.log").open("w") as log:
        start = time.time()
        process = subprocess.Popen(command, stdout=log, stderr=log, env=environment)
    try:
        while process.poll() is None:
            for history in Path(folder, "store", "work").glob(f"*/{HISTORY}"):
                status = history.stat()
                if status.st_mtime > start and status.st_size:
                    return status.st_mtime - start
            time.sleep(0.02)
    finally:
        process.kill()
        process.wait()
    raise SystemExit((folder / "finetune.log").read_text() + "finetune ended before its step 1")


def help_seconds(_: int) -> float:
    start = time.perf_counter()
    subprocess.run([sys.executable, "-m", "acl_bert", "--help"], capture_output=True, check=True)
    return time.perf_counter() - start


def help_imports() -> set[str]:
    """The modules that `--help` imports, as the interpreter itself tells."""
    command = [sys.executable, "-X", "importtime", "-m", "acl_bert", "--help"]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stderr
    return {line.rsplit("|", 1)[-1].strip() for line in told.splitlines()}
