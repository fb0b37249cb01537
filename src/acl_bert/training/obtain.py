"""Finished runs: from the store where it has them, else trained into it."""

import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from acl_bert.files import read_json, write_json
from acl_bert.runs.code import Code, running_code
from acl_bert.runs.files import (
    CONFIG,
    EPOCHS,
    HISTORY,
    MODEL,
    RunFolder,
    in_progress_path,
    lease_path,
)
from acl_bert.runs.lease import Lease, hold
from acl_bert.runs.store import CodeStates, Store, address_of, write_manifest
from acl_bert.training.checkpoints import CHECKPOINT, Checkpoints
from acl_bert.training.finetune import TeacherRun, finetune
from acl_bert.training.jobs import Job
from acl_bert.training.teacher import write_teacher_outputs


@dataclass(frozen=True)
class Trainer:
    """Trains what the store does not have yet.

    `study`: the folder of the study whose small files name the runs; None where nothing is named.
    `code_states`: whether finished runs of other code count. `minutes` lie between checkpoints.
    """

    store: Store
    study: Path | None = None
    code_states: CodeStates = "any"
    minutes: float = 10.0
    report: Callable[[str], None] = print
    code: Code = field(default_factory=running_code)

    def obtain(self, job: Job, with_model: bool = False) -> str:
        """The address of the finished run, which is trained where the store does not have it.

        `with_model`: its model is needed too, and trained again where it was pruned. Waits while
        another process trains the same run, and takes its result.
        """
        new = address_of(job.key_hash, self.code.digest)
        address = self._find(job, with_model)
        if address is None:
            if self.study and job.name:
                note = {"name": str(job.name.relative_to(self.study))}
                write_json(in_progress_path(self.study, new), note)
            with hold(lease_path(self.store.work(new)), self.report) as lease:
                address = self._find(job, with_model)
                if address is None:
                    self._train(job, new, lease)
                    address = new
        if self.study and job.name:
            # Left as it is where it says the same: Snakemake would take it for changed.
            name = self.store.name_of(address)
            if not job.name.is_file() or read_json(job.name) != name:
                write_json(job.name, name)
            in_progress_path(self.study, new).unlink(missing_ok=True)
        return address

    def _find(self, job: Job, with_model: bool) -> str | None:
        address = self.store.find(job.key_hash, self.code.digest, self.code_states)
        if address and with_model and not self.store.has_model(address):
            return None
        return address

    def _train(self, job: Job, address: str, lease: Lease) -> None:
        teacher = self._obtain_teacher(job)
        work = self.store.work(address)

        def guard() -> None:
            lease.look()
            lease.check()

        checkpoints = Checkpoints(work / CHECKPOINT, self.minutes, guard)
        _clear(work)
        _write_config(work, job, teacher)
        finetune(job, address, work, teacher, checkpoints, lease.check, self.code, self.report)
        guard()
        checkpoints.remove()
        if (work / MODEL).is_dir():
            self.store.publish_model(work / MODEL, address)
        finished = self.store.run(address)
        if finished.finished and finished.metrics()["exits"] != RunFolder(work).metrics()["exits"]:
            self.report(
                f"{finished.path}: trained again for its model, whose numbers are not quite those "
                "that are kept: this device does not repeat them to the bit"
            )
        self.store.publish(work, address)

    def _obtain_teacher(self, job: Job) -> TeacherRun | None:
        """The run that comes first, with all that this one reads of it."""
        if job.teacher is None:
            return None
        method = job.settings.method
        address = self.obtain(job.teacher, with_model=method.start == "teacher")
        outputs = None
        if method.needs_teacher_items:
            outputs = self.store.teacher_outputs(address)
            with hold(lease_path(outputs), self.report):
                if not self.store.has_teacher_outputs(address):
                    address = self.obtain(job.teacher, with_model=True)
                    outputs = self.store.teacher_outputs(address)
                    model, training = self.store.model(address), job.teacher.settings.training
                    write_teacher_outputs(model, job.tokens, training, outputs)
                    write_manifest(outputs.parent, outputs.name)
        depth = self.store.run(address).metrics()["depth"]
        return TeacherRun(address, depth, self.store.model(address), outputs)


def _clear(work: Path) -> None:
    """Remove what an earlier process left, but for the files that a checkpoint goes on with."""
    work.mkdir(parents=True, exist_ok=True)
    for path in work.iterdir():
        if path.is_dir():
            shutil.rmtree(path)
        elif path.name not in (HISTORY, EPOCHS, CHECKPOINT):
            path.unlink()


def _write_config(work: Path, job: Job, teacher: TeacherRun | None) -> None:
    description = job.tokens.description
    config = {
        "encoder_path": job.encoder.path,
        "encoder_revision": job.encoder.revision,
        "encoder_fingerprint": description["encoder_fingerprint"],
        "tokens_fingerprint": description["fingerprint"],
        "data_fingerprint": job.tokens.task["fingerprint"],
        "teacher_run": teacher.address if teacher else None,
        "key": job.key,
    }
    write_json(work / CONFIG, job.settings.model_dump(by_alias=True) | config)
