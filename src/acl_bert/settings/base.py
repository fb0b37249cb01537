"""What every section of the config shares: it is frozen and refuses keys it does not know."""

import copy
from typing import Any

from pydantic import BaseModel, ConfigDict, create_model


class Section(BaseModel):
    """A part of the study's config."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", populate_by_name=True, serialize_by_alias=True
    )


def patch_of(
    section: type[BaseModel], without: tuple[str, ...] = (), **more: Any
) -> type[Section]:
    """A model with the same keys and types as `section`, every one of them optional.

    It lets a study override a few keys of a row and still have each checked, and documented in
    the JSON schema, where it is written. `without` leaves fields out, `more` adds some:
    name=(type, default).
    """
    fields: dict[str, Any] = {}
    for name, field in section.model_fields.items():
        if name in without:
            continue
        annotation: Any = field.annotation
        if isinstance(annotation, type) and issubclass(annotation, BaseModel):
            annotation = patch_of(annotation)
        optional = copy.copy(field)
        optional.default, optional.default_factory = None, None
        fields[name] = (annotation, optional)
    return create_model(f"{section.__name__}Patch", __base__=Section, **fields, **more)


def merge(base: dict[str, Any], patch: BaseModel | dict[str, Any]) -> dict[str, Any]:
    """`base` with the keys that were really written in `patch`, section by section."""
    if isinstance(patch, BaseModel):
        patch = patch.model_dump(exclude_unset=True, by_alias=True)
    merged = dict(base)
    for key, value in patch.items():
        below = merged.get(key)
        deeper = isinstance(below, dict) and isinstance(value, dict)
        merged[key] = merge(below, value) if deeper else value
    return merged
