"""Which code trains: as it was when the process began, even if its files change later."""

import subprocess
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from pathlib import Path

import acl_bert
from acl_bert.files import content_hash

# The packages that a run's numbers depend on. `config` too: it says what a setting means.
PACKAGES = ("config", "data", "evaluation", "model", "objectives", "training")
LIBRARIES = ("torch", "transformers", "numpy")


@dataclass(frozen=True)
class Code:
    commit: str | None
    """With "+" where files differ from the commit; None outside git."""
    digest: str
    """sha256 of PACKAGES, and the versions of LIBRARIES."""


@cache
def running_code() -> Code:
    """Call it first when a process begins; later calls return the same."""
    package = Path(acl_bert.__file__).parent
    files = [path for name in PACKAGES for path in sorted((package / name).glob("**/*.py"))]
    libraries = [f"{name} {version(name)}" for name in LIBRARIES]
    return Code(_commit(package), " ".join([content_hash(files), *libraries]))


def _commit(package: Path) -> str | None:
    try:
        commit, status = (
            subprocess.run(
                ["git", "-C", str(package), *command], capture_output=True, text=True, check=True
            ).stdout.strip()
            for command in (["rev-parse", "HEAD"], ["status", "--porcelain", "--", "."])
        )
    except (OSError, subprocess.CalledProcessError):
        return None
    return commit + ("+" if status else "")
