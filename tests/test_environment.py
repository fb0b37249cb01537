"""pyproject.toml, requirements.lock and environment.yml describe one environment."""

import re
import tomllib
from importlib.metadata import requires
from pathlib import Path
from typing import Any

import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).parents[1]
ON_CONDA = {"torch": "pytorch"}  # packages that have another name there
NOT_FROM_PYPI = {"python", "pip"}


def pinned(lines: list[str]) -> dict[str, str]:
    """Package -> its one version."""
    found = {}
    for line in lines:
        requirement = Requirement(line)
        (specifier,) = requirement.specifier
        assert specifier.operator == "==" and "*" not in specifier.version, f"{line}: not pinned"
        name = canonicalize_name(requirement.name)
        assert name not in found, f"{line}: stands there twice"
        found[name] = specifier.version
    return found


def project() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]


def wanted() -> dict[str, str]:
    """What pyproject.toml asks for, all extras included."""
    own = project()
    extras = own["optional-dependencies"].values()
    return pinned([*own["dependencies"], *(line for extra in extras for line in extra)])


def lock_lines() -> list[str]:
    return (ROOT / "requirements.lock").read_text("utf-8").splitlines()


def conda() -> dict[str, Any]:
    return yaml.safe_load((ROOT / "environment.yml").read_text("utf-8"))


def conda_packages() -> dict[str, str]:
    """What environment.yml asks for, by the names on PyPI."""
    from_conda: list[str] = []
    from_pip: list[str] = []
    for entry in conda()["dependencies"]:
        if isinstance(entry, dict):
            from_pip += entry["pip"]
        else:
            from_conda.append(entry)
    pypi = {there: here for here, there in ON_CONDA.items()}
    renamed = []
    for entry in from_conda:
        match = re.fullmatch(r"([a-z0-9-]+)=([0-9.]+)", entry)
        assert match, f"{entry}: not pinned"
        renamed.append(f"{pypi.get(match[1], match[1])}=={match[2]}")
    return pinned(renamed + from_pip)


def test_the_lock_pins_all_that_the_project_asks_for() -> None:
    lock = pinned(lock_lines())
    assert wanted().items() <= lock.items()


def test_the_lock_is_of_no_single_machine() -> None:
    """Neither one build of PyTorch, nor this project, nor a path."""
    lock = pinned(lock_lines())
    assert not [name for name, version in lock.items() if Version(version).local]
    assert "acl-bert" not in lock
    assert list(lock) == sorted(lock)


def test_the_lock_pins_what_its_packages_need_too() -> None:
    lock = pinned(lock_lines())
    for name in lock:
        for line in requires(name) or []:
            needed = Requirement(line)
            if needed.marker is None or needed.marker.evaluate({"extra": ""}):
                package = canonicalize_name(needed.name)
                # A PyTorch build for GPUs brings its own.
                if not package.startswith(("nvidia-", "triton", "cuda-")):
                    assert package in lock, f"{name} needs {line}"


def test_conda_has_what_the_project_asks_for_and_the_locks_versions() -> None:
    packages = conda_packages()
    assert wanted().items() <= packages.items()
    others = {name: packages[name] for name in packages.keys() - NOT_FROM_PYPI}
    assert others.items() <= pinned(lock_lines()).items()


def test_conda_has_a_python_that_the_project_takes() -> None:
    python = conda_packages()["python"]
    assert project()["requires-python"] == f">={python}"
    assert conda()["channels"] == ["conda-forge", "bioconda", "nodefaults"]
    assert conda()["name"] == project()["name"]


def test_the_container_installs_what_there_is() -> None:
    lines = (ROOT / "containers" / "acl-bert.def").read_text("utf-8").splitlines()
    copied = lines[lines.index("%files") + 1].split()
    assert (ROOT / copied[0]).is_file()
    assert any(line.endswith(f"--requirement {copied[1]}") for line in lines)
