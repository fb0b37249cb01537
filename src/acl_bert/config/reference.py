"""The tables of keys in config/README.md, written from the descriptions in the schema.

`python -m acl_bert.config.reference config/README.md` replaces what stands between the markers
`<!-- keys of SECTION -->` and `<!-- end of keys -->`.
"""

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args, get_origin

import yaml
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from acl_bert.config.base import Patch
from acl_bert.config.study import Study

# The headings of these and of their entries, such as `tasks.*`, have the same anchor but for -1.
ENTRIES = {"tasks", "encoders", "methods"}
TABLE = re.compile(r"(<!-- keys of (\S+) -->\n).*?(<!-- end of keys -->)", re.DOTALL)


def sections(
    model: type[BaseModel] = Study, name: str = "study"
) -> Iterator[tuple[str, type[BaseModel]]]:
    """Every section of a study by its name, such as methods.*.gate, and its model."""
    yield name, model
    for key, field in fields(model).items():
        if below := _section(field.annotation, f"{name}.{key}".removeprefix("study.")):
            yield from sections(*below)


def fields(model: type[BaseModel]) -> dict[str, FieldInfo]:
    return {field.alias or name: field for name, field in model.model_fields.items()}


def _section(annotation: Any, name: str) -> tuple[type[BaseModel], str] | None:
    """The model in an annotation such as dict[str, Model] or Model | None, if there is one."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation, name
    entries = f"{name}.*" if get_origin(annotation) is dict else name
    found = (_section(inner, entries) for inner in get_args(annotation))
    return next(filter(None, found), None)


def _default(model: type[BaseModel], key: str) -> str:
    field = fields(model)[key]
    if issubclass(model, Patch) and key in fields(model.section):
        field = fields(model.section)[key]
        if field.is_required():
            return "the known one's"
    value = field.get_default(call_default_factory=True)
    if field.is_required():
        return "required"
    if isinstance(value, BaseModel):
        return "none" if isinstance(value, Patch) else "see there"
    if value is None or value in ({}, (), ""):
        return "none"
    text = yaml.safe_dump(json.loads(json.dumps(value)), default_flow_style=True, width=1000)
    return f"`{text.removesuffix('...' + chr(10)).strip()}`"


def write_tables(readme: str) -> str:
    """The text of config/README.md with the tables that the schema has now."""
    models = dict(sections())
    named = [name for _, name, _ in TABLE.findall(readme)]

    def table(match: re.Match[str]) -> str:
        name = match[2]
        rows = []
        for key, field in fields(models[name]).items():
            below = _section(field.annotation, f"{name}.{key}".removeprefix("study."))
            link = ""
            if below and below[1] in named:
                anchor = re.sub(r"[^\w-]", "", below[1])
                link = f" See [{below[1]}](#{anchor}{'-1' if anchor in ENTRIES else ''})."
            text = " ".join((field.description or "").split())
            rows.append(f"| `{key}` | {_default(models[name], key)} | {text}{link} |")
        head = "| key | default | meaning |\n| --- | --- | --- |\n"
        return f"{match[1]}\n{head}" + "\n".join(rows) + f"\n\n{match[3]}"

    return TABLE.sub(table, readme)


if __name__ == "__main__":
    path = Path(sys.argv[1])
    path.write_text(write_tables(path.read_text("utf-8")), "utf-8")
