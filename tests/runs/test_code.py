"""The code's digest covers what numbers come from, and no more."""

import shutil
from pathlib import Path

import pytest

import acl_bert
from acl_bert.runs.code import running_code


def digest(package: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """That of the code in this folder, as a process that begins now would have it."""
    monkeypatch.setattr(acl_bert, "__file__", str(package / "__init__.py"))
    return running_code.__wrapped__().digest


@pytest.mark.parametrize(
    ("file", "counts"),
    [
        ("config/method.py", True),
        ("training/step.py", True),
        ("objectives/gate.py", True),
        ("model/classifier.py", True),
        ("data/tokens.py", True),
        ("evaluation/metrics.py", True),
        ("study/tables.py", False),
        ("tracking/mirror.py", False),
        ("runs/store.py", False),
        ("cli.py", False),
    ],
)
def test_a_changed_line_is_other_code_where_numbers_come_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: str, counts: bool
) -> None:
    package = tmp_path / "acl_bert"
    shutil.copytree(Path(acl_bert.__file__).parent, package)
    before = digest(package, monkeypatch)
    assert before == running_code().digest
    with (package / file).open("a") as stream:
        stream.write("# another line\n")
    assert (digest(package, monkeypatch) != before) == counts


def test_a_changed_meaning_of_a_setting_is_other_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "acl_bert"
    shutil.copytree(Path(acl_bert.__file__).parent, package)
    before = digest(package, monkeypatch)
    path = package / "config" / "method.py"
    text = path.read_text()
    assert text.count("1.0 - self.weight") == 1  # of ce_weight
    path.write_text(text.replace("1.0 - self.weight", "2.0 - self.weight"))
    assert digest(package, monkeypatch) != before


def test_a_process_keeps_the_code_that_it_began_with(monkeypatch: pytest.MonkeyPatch) -> None:
    began = running_code()
    monkeypatch.setattr("acl_bert.runs.code.content_hash", lambda files: "changed since")
    assert running_code() == began
