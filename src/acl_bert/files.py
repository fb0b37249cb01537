"""Files that are either whole or absent: written aside, synced, renamed."""

import csv
import hashlib
import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

if TYPE_CHECKING:
    import numpy as np


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Make an error of the disk say which file it met; some libraries hide that it is one."""
    try:
        yield
    except OSError as error:
        if error.filename is None and error.errno is not None:
            raise OSError(error.errno, os.strerror(error.errno), str(path)) from error
        raise
    except Exception as error:
        # As safetensors and tokenizers end their own: "No space left on device (os error 28)".
        if number := re.search(r"\(os error (\d+)\)", str(error)):
            raise OSError(int(number[1]), os.strerror(int(number[1])), str(path)) from error
        raise


@contextmanager
def atomic_file(path: Path) -> Iterator[Path]:
    """Yield a path beside `path`; it takes `path`'s place when the block ends without an error."""
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_name(f".{path.name}.{uuid4().hex}.part")
    try:
        with naming(path):
            yield aside
            _sync(aside)
            os.replace(aside, path)
            _sync(path.parent)
    finally:
        aside.unlink(missing_ok=True)


@contextmanager
def atomic_folder(path: Path) -> Iterator[Path]:
    """Yield an empty folder beside `path`; it replaces `path` when the block ends without error."""
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = Path(tempfile.mkdtemp(prefix=f".{path.name}.", suffix=".part", dir=path.parent))
    aside.chmod(0o755)
    try:
        with naming(path):
            yield aside
            publish_folder(aside, path)
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def publish_folder(folder: Path, target: Path) -> None:
    """Sync what is in `folder` and rename it to `target`, replacing a folder already there."""
    for item in sorted(folder.rglob("*")):
        _sync(item)
    _sync(folder)
    target.parent.mkdir(parents=True, exist_ok=True)
    # Renamed, not removed: that takes long, and fails where a file of it is still open on NFS.
    old = target.with_name(f".{target.name}.{uuid4().hex}.old")
    with suppress(FileNotFoundError):
        os.replace(target, old)
    os.replace(folder, target)
    _sync(target.parent)
    shutil.rmtree(old, ignore_errors=True)


def write_text(path: Path, text: str) -> None:
    with atomic_file(path) as aside:
        aside.write_text(text, encoding="utf-8")


def to_json(value: Any) -> str:
    """One spelling for every JSON file here; NaN is refused since it is not JSON."""
    return json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def write_json(path: Path, value: Any) -> None:
    write_text(path, to_json(value))


def read_json(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def write_csv(path: Path, header: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    with atomic_file(path) as aside, aside.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(rows)


def write_tensors(
    path: Path, tensors: "Mapping[str, np.ndarray]", metadata: dict[str, str] | None = None
) -> None:
    """A safetensors file."""
    from safetensors.numpy import save_file  # not above: every verb imports this module

    with atomic_file(path) as aside:
        save_file(dict(tensors), aside, metadata)


def content_hash(paths: Iterable[Path]) -> str:
    """sha256 of the files' contents, one after the other, whatever they are called."""
    digest = hashlib.sha256()
    for path in paths:
        with path.open("rb") as stream:
            digest.update(hashlib.file_digest(stream, "sha256").digest())
    return digest.hexdigest()


def canonical_hash(value: Any) -> str:
    """sha256 of a JSON-able value, independent of key order."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()
