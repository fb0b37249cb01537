"""The store of finished runs: immutable folders, shared by all studies, addressed by content.

    results/store/<address>/         a finished run, and manifest.json: its files' sizes and digests
    results/store/heavy/<address>/   its model and its teacher outputs, also with manifests
    results/store/work/<address>/    a run in progress; one rename makes it a finished run
    results/store/damaged/           runs whose files are not what their manifest says

An address is the hash of what determines a run (`runs/key.py`) and that of the code that trained
it. A study names its runs in small files (`runs/files.py`): to delete a study is to delete names.
"""

import hashlib
import shutil
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypedDict
from uuid import uuid4

from acl_bert.errors import InputError
from acl_bert.files import publish_folder, read_json, write_json
from acl_bert.runs.files import METRICS, MODEL, TEACHER_OUTPUTS, RunFolder, called_by, find_names

STORE = "store"
"""The folder's name beside those of the studies, none of which may be called so."""
MANIFEST = "manifest.json"

CodeStates = Literal["any", "same"]
"""Whether finished runs of other code count."""


class Name(TypedDict):
    """What a study's small file holds: which run is meant, and the digest of its manifest."""

    run: str
    digest: str


def address_of(key: str, code: str) -> str:
    """Where a run of this key (a hash), trained by this code (a digest), lies in the store."""
    return f"{key[:32]}-{hashlib.sha256(code.encode()).hexdigest()[:8]}"


def key_of(address: str) -> str:
    """What runs have in common that differ in nothing but the code."""
    return address.partition("-")[0]


@dataclass(frozen=True)
class Store:
    """The store in the folder `root`, which need not be there yet."""

    root: Path

    @classmethod
    def beside(cls, study: Path) -> "Store":
        """The one that the study in this folder shares with those beside it."""
        return cls(study.parent / STORE)

    def run(self, address: str) -> RunFolder:
        return RunFolder(self.root / address)

    def work(self, address: str) -> Path:
        return self.root / "work" / address

    def model(self, address: str) -> Path:
        return self.root / "heavy" / address / MODEL

    def teacher_outputs(self, address: str) -> Path:
        return self.root / "heavy" / address / TEACHER_OUTPUTS

    def has_model(self, address: str) -> bool:
        """Whether a run's model is there, its content as it was written."""
        return fault_of(self.model(address)) is None

    def has_teacher_outputs(self, address: str) -> bool:
        """Whether a run's teacher outputs are there, their content as it was written."""
        return fault_of(self.root / "heavy" / address) is None

    def addresses(self) -> Iterator[str]:
        """Of all finished runs."""
        return (path.parent.name for path in sorted(self.root.glob(f"*/{MANIFEST}")))

    def find(self, key: str, code: str, states: CodeStates) -> str | None:
        """The address of a finished, undamaged run of this key: of this code, else of any other.

        Of other code only where `states` is any; the first address of several. Damaged runs that
        come before it are set aside.
        """
        own = address_of(key, code)
        others = sorted(path.parent.name for path in self.root.glob(f"{key[:32]}-*/{MANIFEST}"))
        candidates = (own, *others) if states == "any" else (own,)
        return next((address for address in candidates if self._is_whole(address)), None)

    def _is_whole(self, address: str, contents: bool = True) -> bool:
        """Whether a finished run is there, undamaged; a damaged one is set aside."""
        folder = self.root / address
        if not folder.is_dir():
            return False
        if fault := fault_of(folder, contents):
            self.set_aside(address, fault)
        return fault is None

    def name_of(self, address: str) -> Name:
        """What a study's small file about a finished run is to hold."""
        return Name(run=address, digest=_digest(self.root / address / MANIFEST))

    def named(self, path: Path, contents: bool = False) -> RunFolder:
        """The finished run that a study's small file names.

        `contents`: the digests of its files are checked too, not their sizes alone, and one that is
        damaged is set aside. Raises InputError where there is no such file, or the store does not
        have that very run, whole.
        """
        name = read_name(path)
        folder = self.root / name["run"]
        if not folder.is_dir():
            fault: str | None = f"the run {name['run']} is not in {self.root}"
        elif not (fault := fault_of(folder, contents)) and self.name_of(folder.name) != name:
            fault = f"{folder} is not the run that is named"
        if fault:
            if contents:
                self._is_whole(folder.name)
            raise InputError(f"{path}: {fault}; start the workflow again, which trains it anew")
        return RunFolder(folder, called_by(path))

    def forget_lost(self, study: Path) -> list[str]:
        """Remove a study's small files that name what the store does not have; what was wrong.

        Damaged runs are set aside: the next job that asks for one trains it again.
        """
        lost = []
        for path in (*find_names(study), *find_names(study, tuning=True)):
            try:
                self.named(path)
            except InputError as error:
                lost.append(str(error))
                with suppress(InputError):
                    self._is_whole(read_name(path)["run"], contents=False)
                path.unlink(missing_ok=True)
        return lost

    def set_aside(self, address: str, fault: str) -> Path:
        """Move a damaged run to `damaged/`, so that it is trained again; returns its new folder."""
        target = self.root / "damaged" / f"{address}.{uuid4().hex[:8]}"
        target.parent.mkdir(parents=True, exist_ok=True)
        with suppress(FileNotFoundError):  # another process was first
            (self.root / address).rename(target)
            (target / "FAULT").write_text(f"{fault}\n", encoding="utf-8")
        return target

    def publish_model(self, folder: Path, address: str) -> None:
        """Move a model's folder, whole, to the heavy parts, and drop an older model's outputs."""
        self.teacher_outputs(address).unlink(missing_ok=True)
        write_manifest(folder)
        publish_folder(folder, self.model(address))

    def publish(self, work: Path, address: str) -> None:
        """Make a work folder a finished run; if there is one already, `work` is removed instead."""
        write_manifest(work)
        if (self.root / address / METRICS).is_file():
            shutil.rmtree(work)
        else:
            publish_folder(work, self.root / address)


def read_name(path: Path) -> Name:
    """Raises InputError where the file is absent, or is not a small file that names a run."""
    try:
        name = read_json(path)
        return Name(run=name["run"], digest=name["digest"])
    except FileNotFoundError as error:
        raise InputError(f"{path}: no such file, the run is not finished; run it first") from error
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path}: names no run ({error}); remove it, and run it again") from error


def write_manifest(folder: Path, pattern: str = "**/*") -> None:
    """Of a folder's files, or of those that match: by relative path, size and sha256."""
    files = {
        str(path.relative_to(folder)): {"size": path.stat().st_size, "sha256": _digest(path)}
        for path in sorted(folder.glob(pattern))
        if path.is_file() and path.name != MANIFEST
    }
    write_json(folder / MANIFEST, files)


def fault_of(folder: Path, contents: bool = True) -> str | None:
    """How a folder's files differ from what its manifest says; None where they do not.

    Without `contents` only the sizes are compared, which costs one file system call a file.
    """
    try:
        for name, known in read_json(folder / MANIFEST).items():
            path = folder / name
            if not path.is_file():
                return f"{path} is missing"
            if path.stat().st_size != known["size"]:
                return f"{path} has {path.stat().st_size} bytes, not {known['size']}"
            if contents and _digest(path) != known["sha256"]:
                return f"{path} is damaged: its content is not what was written"
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        return f"{folder / MANIFEST} cannot be read ({error})"
    return None


def _digest(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
