"""The config's JSON schema and its README say what the typed model says."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

ROOT = Path(__file__).parents[2]
SCHEMA = json.loads((ROOT / "workflow" / "schemas" / "study.schema.json").read_text("utf-8"))
CONFIGS = sorted(set((ROOT / "config").glob("*.yaml")) - {ROOT / "config" / "claims.yaml"})


def faults(config: Any) -> list[str]:
    Draft202012Validator.check_schema(SCHEMA)
    return [error.json_path for error in Draft202012Validator(SCHEMA).iter_errors(config)]


def sections(schema: dict[str, Any], place: str = "") -> Iterator[tuple[str, set[str]]]:
    """Every section of a study as (its place, such as methods.*.gate, its keys)."""
    for part in (schema, *schema.get("anyOf", [])):
        if "$ref" in part:
            yield from sections(SCHEMA["$defs"][part["$ref"].rpartition("/")[2]], place)
        if isinstance(part.get("additionalProperties"), dict):
            yield from sections(part["additionalProperties"], f"{place}.*")
        # A pattern on the names of entries.
        for entry in part.get("patternProperties", {}).values():
            yield from sections(entry, f"{place}.*")
        if "properties" in part:
            yield place or "study", set(part["properties"])
            for key, value in part["properties"].items():
                yield from sections(value, f"{place}.{key}".removeprefix("."))


def explained() -> dict[str, set[str]]:
    """Heading of config/README.md -> the keys that the table below it explains."""
    text = (ROOT / "config" / "README.md").read_text("utf-8")
    parts = re.split(r"^## (.+)$", text, flags=re.MULTILINE)[1:]
    return {
        heading: set(re.findall(r"^\| `(\w+)` \| .+ \| .+ \|$", body, flags=re.MULTILINE))
        for heading, body in zip(parts[::2], parts[1::2], strict=True)
    }


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


def test_the_readme_explains_every_key_and_no_other() -> None:
    told = explained()
    known = dict(sections(SCHEMA))
    assert known["tasks.*.training"] == known["training"], "it is explained there"
    del known["tasks.*.training"]
    hardware = {"max_length", "precision", "device", "threads"}
    assert known["methods.*.training"] == known["training"] - hardware
    variants = "analyses.audit.more.*.variants.*"
    for below in ("", ".gate", ".training"):
        same = known.pop(f"{variants}{below}")
        assert same == known[f"methods.*{below}"] - {"like", "title"}, "it is explained there"
    del known["methods.*.training"]
    assert {place: keys for place, keys in told.items() if keys} == known
    assert len(known) == 22


def test_the_readme_names_the_key_of_every_open_choice() -> None:
    """Its first table: each key it names is one of the schema's."""
    text = (ROOT / "config" / "README.md").read_text("utf-8")
    table = text.split("## What the paper leaves open")[1].split("## study")[0]
    rows = [line.split("|")[2] for line in table.splitlines() if line.startswith("|")][2:]
    known = {f"{place}.{key}" for place, keys in sections(SCHEMA) for key in keys}
    assert len(rows) == 19
    for key in re.findall(r"`([^`]+)`", "".join(rows)):
        assert (key if "." in key else f"study.{key}") in known, key
