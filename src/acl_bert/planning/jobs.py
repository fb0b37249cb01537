"""What the workflow asks about its jobs: parameters, GPUs, time limits, groups and priorities.

A parameter says all that a job's outputs depend on besides its inputs: Snakemake repeats the job
when, and only when, that changes. `Wildcards` are those of Snakemake's job, by name.
"""

import json
from collections.abc import Collection, Mapping
from functools import cache
from pathlib import Path

from acl_bert.config.study import Study
from acl_bert.data.prepare import determinants
from acl_bert.encoders import encoder_fingerprint, fetch_encoder
from acl_bert.planning.disk import check_disk, disk_use
from acl_bert.planning.hours import Costs, Slots
from acl_bert.planning.sizes import Sizes
from acl_bert.runs.code import running_code
from acl_bert.runs.files import LAMBDA, name_path, tuning_path
from acl_bert.study.planned import Run

SHORT_MINUTES = 20
"""Runs with a lower time limit are submitted to a cluster together."""

Wildcards = Mapping[str, str]


class Jobs:
    """The jobs of a study whose folder is `folder`. Caches what runs have in common: runs are many.

    The methods raise InputError for what the user has to mend.
    """

    def __init__(self, study: Study, folder: Path, slots: Slots) -> None:
        self._study, self._folder, self._slots = study, folder, slots
        self._sizes = Sizes(study, folder)
        self._on_gpu = cache(slots.on_gpu)  # by training.device; nvidia-smi is slow
        self._costs = cache(lambda on_gpu: Costs(self._sizes, on_gpu))
        self._settings = cache(lambda run: self._sizes.settings(run).determinants())
        self._limit = cache(self._limit_minutes)

    def data_settings(self, wildcards: Wildcards) -> str:
        """What prepared rows depend on: the content of local files, but not their paths."""
        spec = self._study.task_spec(wildcards["task"])
        return json.dumps(determinants(spec, self._study.source, self._study.selection))

    def tokens_settings(self, wildcards: Wildcards) -> str:
        """What tokens depend on besides the rows."""
        encoder = self._study.encoder(wildcards["encoder"])
        fingerprint = encoder_fingerprint(encoder.path, encoder.revision)
        return json.dumps([fingerprint, self._study.training_of(wildcards["task"]).max_length])

    def run_settings(self, wildcards: Wildcards) -> str:
        """What a run depends on besides its tokens, teacher and chosen λ."""
        run = Run.of_wildcards(wildcards)
        settings = self._settings(run.of_first_seed(self._study)) | {"seed": run.seed}
        code = running_code().digest if self._study.code == "same" else None
        return json.dumps([settings, code])

    def teacher(self, wildcards: Wildcards) -> list[str]:
        """The file that names the teacher's run, for methods with a teacher."""
        run = Run.of_wildcards(wildcards)
        teacher = self._study.method_row(run.method).teacher
        if teacher is None:
            return []
        return [str(name_path(self._folder, run.task, run.encoder, teacher, run.seed))]

    def chosen_lambda(self, wildcards: Wildcards) -> list[str]:
        """The file with the chosen λ, for methods whose λ is tuned."""
        run = Run.of_wildcards(wildcards)
        tuned = self._study.lambda_of(run.method)
        if tuned is None:
            return []
        return [str(tuning_path(self._folder, run.task, run.encoder, tuned) / LAMBDA)]

    def priority(self, wildcards: Wildcards) -> int:
        """Seed by seed, students before teachers, so that few teachers' models exist at a time."""
        seeds = (*self._study.tuning.seeds, *self._study.seeds)
        remaining = len(seeds) - seeds.index(int(wildcards["seed"]))
        return 2 * remaining + (self._study.method_row(wildcards["method"]).teacher is not None)

    def gpus(self, wildcards: Wildcards) -> int:
        """1 for a run that trains on a GPU, of this machine or of a cluster."""
        return int(self._on_gpu(self._study.training_of(wildcards["task"]).device))

    def minutes(self, wildcards: Wildcards, attempt: int) -> int:
        """A run's time limit, longer at each attempt."""
        return attempt * self._limit(Run.of_wildcards(wildcards).of_first_seed(self._study))

    def _limit_minutes(self, run: Run) -> int:
        on_gpu = self._on_gpu(self._study.training_of(run.task).device)
        return self._costs(on_gpu).limit_minutes(run)

    def group(self, wildcards: Wildcards) -> str | None:
        """The group of a short run: those of its configuration, none of which waits for another."""
        if self.minutes(wildcards, attempt=1) >= SHORT_MINUTES:
            return None
        run = Run.of_wildcards(wildcards)
        return "_".join(("runs" if run.weight is None else "tuning", *run.configuration))

    def before_start(self, runs: Collection[Run]) -> None:
        """Refuse to start what the disk cannot hold; fetch the encoders of `runs`.

        `runs` are about to be trained: the first of many jobs must not wait for an encoder while it
        holds a GPU.
        """
        training = self._study.training
        on_gpu = self._on_gpu(training.device)
        at_a_time = self._slots.at_a_time(on_gpu, training.threads)
        new = [run for run in runs if not run.path(self._folder).is_file()]
        check_disk(disk_use(self._sizes, new, self._costs(on_gpu), at_a_time))
        for name in sorted({run.encoder for run in runs}):
            encoder = self._study.encoder(name)
            fetch_encoder(encoder.path, encoder.revision)
