"""What is wrong with a config, in words a user can act on."""

import difflib
from collections.abc import Iterable
from types import UnionType
from typing import Any, get_args, get_origin

from pydantic import BaseModel, ValidationError

from acl_bert.errors import InputError

# Old names of a study's keys and values; a study that has one is told the new name.
RENAMED_KEYS = {
    "accumulation": "gradient_accumulation_steps",
    "clip_norm": "max_grad_norm",
    "warmup": "warmup_ratio",
    "batches": "group_by_length (grouped is true, shuffled is false)",
    "chosen_on": "selection_split",
    "selected_by": "model_selection",
}
RENAMED_VALUES = {
    "first_token": "cls",
    "last": "single_exit",
    "exits": "frozen_backbone",
    "observe": "log_only",
    "project": "pcgrad",
}


def nearest(name: str, known: Iterable[Any]) -> str:
    """Did you mean …? Or all that is known, where nothing is like it."""
    known = list(map(str, known))
    close = difflib.get_close_matches(name, known, n=1)
    return f"did you mean {close[0]!r}?" if close else f"known: {', '.join(known)}"


def unknown(name: str, known: Iterable[Any]) -> str:
    return f"{name!r} is not known; {nearest(name, known)}"


def _keys_at(root: type[BaseModel], place: tuple[Any, ...]) -> list[str]:
    """The keys that the section at `place` below `root` knows."""

    def fields(section: Any) -> dict[str, Any]:
        return {field.alias or name: field for name, field in section.model_fields.items()}

    section: Any = root
    for part in place:
        if get_origin(section) is dict:  # `part` is the name of an entry
            section = get_args(section)[1]
        else:
            section = fields(section)[part].annotation
        if get_origin(section) is UnionType:  # a section that may be left empty
            section = get_args(section)[0]
    return list(fields(section))


def _unknown_key(name: str, known: list[str]) -> str:
    if (new := RENAMED_KEYS.get(name)) and new.split()[0] in known:
        return f"is called {new} now"
    return f"unknown key; {nearest(name, known)}"


def explain(error: ValidationError, root: type[BaseModel], *within: str) -> InputError:
    """Every fault of a section, a line each, with the nearest valid key; it stands at `within`."""
    lines = []
    for fault in error.errors():
        place = tuple(part for part in fault["loc"] if part != "[key]")
        name = ".".join(map(str, (*within, *place)))
        given = fault["input"]
        if fault["type"] == "extra_forbidden":
            what = _unknown_key(str(place[-1]), _keys_at(root, place[:-1]))
        elif fault["type"] == "literal_error" and given in RENAMED_VALUES:
            what = f"{given} is called {RENAMED_VALUES[given]} now"
        elif fault["type"] == "missing":
            what = "is missing"
        elif fault["type"] == "value_error":
            what = fault["msg"].removeprefix("Value error, ")
        elif fault["type"] in ("model_type", "dict_type"):
            what = f"should be a mapping of keys, {{}} for none (got {given!r})"
        else:
            what = f"{fault['msg']} (got {given!r})"
        lines.append(f"{name}: {what}" if name else what)
    return InputError("\n".join(lines))
