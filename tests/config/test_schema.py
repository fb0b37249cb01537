"""The config's JSON schema and its README say what the typed model says."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

from acl_bert.config.reference import TABLE, fields, sections, write_tables

ROOT = Path(__file__).parents[2]
SCHEMA = json.loads((ROOT / "workflow" / "schemas" / "study.schema.json").read_text("utf-8"))
README = (ROOT / "config" / "README.md").read_text("utf-8")
CONFIGS = sorted(set((ROOT / "config").glob("*.yaml")) - {ROOT / "config" / "claims.yaml"})


def faults(config: Any) -> list[str]:
    Draft202012Validator.check_schema(SCHEMA)
    return [error.json_path for error in Draft202012Validator(SCHEMA).iter_errors(config)]


def test_the_schema_is_the_models() -> None:
    printed = subprocess.run(
        [sys.executable, "-m", "acl_bert", "schema"], capture_output=True, text=True, check=True
    ).stdout
    assert json.loads(printed) == SCHEMA, "make schema"


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_every_config_is_valid_by_the_schema(path: Path) -> None:
    assert faults(yaml.safe_load(path.read_text("utf-8"))) == []


@pytest.mark.parametrize(
    ("change", "place"),
    [
        ({"training": {"epoch": 3}}, "$.training"),
        ({"training": {"epochs": "three"}}, "$.training.epochs"),
        ({"tasks": {"rte": {"titel": "RTE"}}}, "$.tasks.rte"),
        ({"methods": {"acl": {"gate": {"mode": "average"}}}}, "$.methods.acl.gate.mode"),
        ({"seeds": []}, "$.seeds"),
        ({"keep_models": "some"}, "$.keep_models"),
    ],
)
def test_a_wrong_config_is_not(change: dict[str, Any], place: str) -> None:
    config = yaml.safe_load((ROOT / "config" / "demo.yaml").read_text("utf-8"))
    assert faults(config | change) == [place]


def test_the_readme_has_the_tables_of_the_schema() -> None:
    assert write_tables(README) == README, "make schema"
    assert "| `threads` | `1` | CPU threads of a run." in README


def test_the_readme_explains_every_section_once() -> None:
    explained = [name for _, name, _ in TABLE.findall(README)]
    assert len(explained) == len(set(explained)) == 22
    # Those with the keys of another section.
    variants = "analyses.audit.more.*.variants.*"
    elsewhere = {variants, f"{variants}.gate", f"{variants}.training"}
    elsewhere |= {"tasks.*.training", "methods.*.training"}
    assert {*explained} | elsewhere == dict(sections()).keys()
    for model in dict(sections()).values():
        assert all(field.description for field in model.model_fields.values()), model


def test_the_readme_names_the_key_of_every_open_choice() -> None:
    """Its first table: each key it names is one of the schema's."""
    table = README.split("## What the paper leaves open")[1].split("## study")[0]
    rows = [line.split("|")[2] for line in table.splitlines() if line.startswith("|")][2:]
    known = {f"{place}.{key}" for place, model in sections() for key in fields(model)}
    assert len(rows) == 19
    for key in re.findall(r"`([^`]+)`", "".join(rows)):
        assert (key if "." in key else f"study.{key}") in known, key
