"""The store of finished runs: immutable folders, shared by all studies, addressed by content.

    results/store/<address>/         a finished run, and manifest.json: its files' sizes and digests
    results/store/heavy/<address>/   its model, and what its students read of it: may be pruned
    results/store/work/<address>/    a run in progress; it moves to its place whole, by one rename
    results/store/damaged/           runs whose files are not what their manifest says

An address is the hash of what determines a run (`runs/key.py`) and that of the code that trained
it. A study names its runs in small files (`runs/files.py`): whoever deletes a study deletes names.
"""

import hashlib
import json
import shutil
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypedDict
from uuid import uuid4

from acl_bert.errors import InputError
from acl_bert.files import publish_folder, read_json, to_json, write_json
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

    def addresses(self) -> Iterator[str]:
        """Of all finished runs."""
        return (path.parent.name for path in sorted(self.root.glob(f"*/{MANIFEST}")))

    def heavy_addresses(self) -> Iterator[str]:
        """Of all runs whose model, or what students read of it, is here."""
        return (path.name for path in sorted((self.root / "heavy").glob("[!.]*")))

    def find(self, key: str, code: str, states: CodeStates) -> str | None:
        """The address of a finished, undamaged run of this key: of this code, else of any other.

        Of other code only where `states` is any; the first address of several. One that is damaged
        is set aside on the way.
        """
        own = address_of(key, code)
        others = sorted(path.parent.name for path in self.root.glob(f"{key[:32]}-*/{MANIFEST}"))
        for address in (own, *(others if states == "any" else ())):
            if (self.root / address).is_dir():
                if not (fault := self.fault(address)):
                    return address
                self.set_aside(address, fault)
        return None

    def name_of(self, address: str) -> Name:
        """What a study's small file about a finished run is to hold."""
        return Name(run=address, digest=_digest(self.root / address / MANIFEST))

    def write_name(self, path: Path, address: str) -> None:
        write_json(path, self.name_of(address))

    def named(self, path: Path, contents: bool = False) -> RunFolder:
        """The finished run that a study's small file names.

        `contents`: the digests of its files are checked too, not their sizes alone, and one that is
        damaged is set aside. Raises InputError where there is no such file, or the store does not
        have that very run, whole.
        """
        name = read_name(path)
        if fault := self.fault_of_name(name, contents):
            if contents:
                self._set_damaged_aside(name)
            raise InputError(f"{path}: {fault}; start the workflow again, which trains it anew")
        return RunFolder(self.root / name["run"], called_by(path))

    def fault_of_name(self, name: Name, contents: bool = False) -> str | None:
        """What is wrong with the run that is named; `contents`: as in `fault`."""
        manifest = self.root / name["run"] / MANIFEST
        if not manifest.parent.is_dir():
            return f"the run {name['run']} is not in {self.root}"
        if fault := self.fault(name["run"], contents):
            return fault
        if _digest(manifest) != name["digest"]:
            return f"{manifest.parent} is not the run that is named"
        return None

    def forget_lost(self, study: Path) -> list[str]:
        """Remove a study's small files that name what the store does not have; what was wrong.

        Damaged runs are set aside: whoever asks for them then trains them again.
        """
        lost = []
        for path in (*find_names(study), *find_names(study, tuning=True)):
            try:
                self.named(path)
            except InputError as error:
                lost.append(str(error))
                with suppress(InputError):
                    self._set_damaged_aside(read_name(path))
                path.unlink(missing_ok=True)
        return lost

    def _set_damaged_aside(self, name: Name) -> None:
        if (self.root / name["run"]).is_dir() and (fault := self.fault(name["run"])):
            self.set_aside(name["run"], fault)

    def fault(self, address: str, contents: bool = True) -> str | None:
        """What a finished run's files have that its manifest does not say, or lack; None: nothing.

        Without `contents` the sizes alone are looked at, which costs a file system call a file.
        """
        return folder_fault(self.root / address, contents)

    def set_aside(self, address: str, fault: str) -> Path:
        """Take a damaged run out of the way, so that it is trained again; where it is then."""
        target = self.root / "damaged" / f"{address}.{uuid4().hex[:8]}"
        target.parent.mkdir(parents=True, exist_ok=True)
        with suppress(FileNotFoundError):  # another process was first
            (self.root / address).rename(target)
            (target / "FAULT").write_text(f"{fault}\n", encoding="utf-8")
        return target

    def publish_model(self, folder: Path, address: str) -> None:
        """Move a model's folder, whole, to its place among the heavy parts."""
        self.teacher_outputs(address).unlink(missing_ok=True)  # of a model that was there before
        publish_folder(folder, self.model(address))

    def publish(self, work: Path, address: str) -> None:
        """Move a run's folder, whole, to its place; one that is there stays, and `work` goes."""
        write_manifest(work)
        if (self.root / address / METRICS).is_file():
            shutil.rmtree(work)
        else:
            publish_folder(work, self.root / address)


def read_name(path: Path) -> Name:
    """Raises InputError where the file is absent, or no such file."""
    try:
        name = read_json(path)
        return Name(run=name["run"], digest=name["digest"])
    except FileNotFoundError as error:
        raise InputError(f"{path}: no such file, the run is not finished; run it first") from error
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path}: names no run ({error}); remove it, and run it again") from error


def write_manifest(folder: Path) -> None:
    """Of all that is in a folder: by relative path, size and sha256."""
    files = {
        str(path.relative_to(folder)): {"size": path.stat().st_size, "sha256": _digest(path)}
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != MANIFEST
    }
    (folder / MANIFEST).write_text(to_json(files), encoding="utf-8")


def folder_fault(folder: Path, contents: bool) -> str | None:
    """What a folder has that its manifest does not say, or lacks; see `Store.fault`."""
    try:
        files = json.loads((folder / MANIFEST).read_text("utf-8"))
        for name, known in files.items():
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
