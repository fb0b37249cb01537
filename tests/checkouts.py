"""Copies of what a clone has, in which tests run the workflow."""

import shutil
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[1]


def checkout(folder: Path) -> Path:
    """A copy of what a clone has, so that nothing is written to this one."""
    for name in ("Snakefile", "environment.yml"):
        shutil.copy(ROOT / name, folder)
    for name in ("workflow", "config"):
        shutil.copytree(ROOT / name, folder / name)
    (folder / "src").symlink_to(ROOT / "src")
    return folder


def written(path: Path, config: dict[str, Any]) -> str:
    path.write_text(yaml.safe_dump(config))
    return str(path)
