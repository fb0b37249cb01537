"""Imports run one way, inside functions too: what comes later is unknown to what comes before."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "acl_bert"

BASE = {"errors", "files", "gpus", "encoders", "processes", "runs", "config", "data"}
TRAINABLE = BASE | {"evaluation", "objectives", "model"}

# What each part may import of the others. A new part has to be given its place here.
MAY_IMPORT = {
    **dict.fromkeys(BASE, BASE),
    "objectives": BASE,
    "evaluation": BASE,
    "model": BASE | {"objectives"},
    "training": TRAINABLE,
    "inference": TRAINABLE | {"training"},
    "tracking": BASE,
    "planning": BASE | {"study"},
    "study": BASE | {"evaluation"},
    "starting": BASE | {"cli"},
}
MAY_IMPORT["cli"] = set(MAY_IMPORT)
MAY_IMPORT["__main__"] = {"cli", "starting"}
MAY_IMPORT["__init__"] = set()

# Libraries that only some parts know.
KNOWN_IN = {
    "torch": {"objectives", "model", "training", "inference"},
    "transformers": {"data", "model", "training", "inference", "cli"},
    "mlflow": {"tracking", "cli"},
    "snakemake": set(),
}


def imported(source: str, package: str) -> Iterator[tuple[int, str]]:
    """Line and full dotted name of all that a module in `package` imports, wherever it does so."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) - node.level + 1]
            module = ".".join([*(above if node.level else []), *filter(None, [node.module])])
            yield from ((node.lineno, f"{module}.{alias.name}") for alias in node.names)


def faults(source: str, path: Path) -> list[str]:
    """`path` is the module's, below acl_bert; each fault names it, the line and the import."""
    part = path.parts[0].removesuffix(".py")
    package = ".".join(["acl_bert", *path.parts[:-1]])
    found = []
    for line, name in imported(source, package):
        top, _, rest = name.partition(".")
        if top == "acl_bert":
            other = rest.partition(".")[0]
            wrong = other in MAY_IMPORT and other not in MAY_IMPORT[part] | {part}
        else:
            library = "torch" if name.startswith("safetensors.torch") else top
            wrong = library in KNOWN_IN and part not in KNOWN_IN[library]
        if wrong:
            found.append(f"{path}:{line}: {name}")
    return found


def test_imports_run_one_way() -> None:
    modules = sorted(path.relative_to(SOURCE) for path in SOURCE.rglob("*.py"))
    parts = {path.parts[0].removesuffix(".py") for path in modules}
    assert parts == set(MAY_IMPORT), "a part without its place in MAY_IMPORT, or one that is gone"
    found = [fault for path in modules for fault in faults((SOURCE / path).read_text(), path)]
    assert not found, "\n".join(found)


def test_every_import_finds_its_module() -> None:
    """Those inside functions would be missed only when the function is called."""
    for path in SOURCE.rglob("*.py"):
        package = ".".join(["acl_bert", *path.relative_to(SOURCE).parts[:-1]])
        for line, name in imported(path.read_text(), package):
            whole = SOURCE.parent.joinpath(*name.split("."))
            ours = name.split(".")[0] == "acl_bert"
            assert not ours or is_module(whole) or is_module(whole.parent), f"{path}:{line}: {name}"


def is_module(path: Path) -> bool:
    return path.with_suffix(".py").is_file() or (path / "__init__.py").is_file()


@pytest.mark.parametrize(
    ("path", "source", "expected"),
    [
        ("objectives/gate.py", "from acl_bert.model import Head", "acl_bert.model.Head"),
        ("objectives/gate.py", "from acl_bert import training", "acl_bert.training"),
        ("model/build.py", "import acl_bert.training.loop as x", "acl_bert.training.loop"),
        ("model/build.py", "from ..training.loop import train", "acl_bert.training.loop.train"),
        ("model/build.py", "from .. import inference", "acl_bert.inference"),
        ("training/finetune.py", "def f():\n  from acl_bert.cli import main", "acl_bert.cli.main"),
        ("training/finetune.py", "def f():\n  import mlflow.tracking", "mlflow.tracking"),
        ("training/finetune.py", "import snakemake", "snakemake"),
        ("inference/predict.py", "from acl_bert.study import tables", "acl_bert.study.tables"),
        ("study/tables.py", "if True:\n  import torch", "torch"),
        ("study/tables.py", "from safetensors.torch import load", "safetensors.torch.load"),
        ("tracking/store.py", "from transformers import AutoModel", "transformers.AutoModel"),
        ("tracking/store.py", "from acl_bert.training import loop", "acl_bert.training.loop"),
        ("settings/study.py", "from torch import nn", "torch.nn"),
        ("runs/files.py", "from acl_bert.study import collect", "acl_bert.study.collect"),
    ],
)
def test_a_wrong_import_is_found(path: str, source: str, expected: str) -> None:
    (fault,) = faults(source, Path(path))
    assert fault.startswith(f"{path}:") and fault.endswith(f": {expected}")


def test_imports_that_go_the_right_way_are_none() -> None:
    right = "import torch\nfrom acl_bert import __version__\nfrom .step import x\n"
    right += "from ..model.build import y\nfrom acl_bert.objectives import gate\n"
    assert not faults(right, Path("training/finetune.py"))
    assert not faults("def f():\n  import mlflow\n  from acl_bert.study import x", Path("cli.py"))
