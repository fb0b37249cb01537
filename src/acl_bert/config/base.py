"""What every section of the config shares: it is frozen and refuses keys it does not know."""

import copy
from typing import Annotated, Any, ClassVar, get_args

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    ValidationInfo,
    create_model,
    field_validator,
)

# What every random generator here takes.
Seed = Annotated[int, Field(ge=0, lt=2**32)]


def _types(annotation: Any) -> set[Any]:
    """A field's type and all that it is made of; constraints are left out."""
    inner = [arg for arg in get_args(annotation) if isinstance(arg, type) or get_args(arg)]
    return {annotation} if not inner else set().union(*map(_types, inner))


def _each_once(values: tuple[Any, ...]) -> tuple[Any, ...]:
    if len(set(values)) != len(values):
        raise ValueError(f"{list(values)} names one of them twice")
    return values


Once = AfterValidator(_each_once)


class Section(BaseModel):
    """A section of the study's config."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        allow_inf_nan=False,
        serialize_by_alias=True,
        use_attribute_docstrings=True,
    )

    # Numbers may come as text: YAML reads 2e-5 so, and Snakemake all that --config gives. But `yes`
    # is no number, though Python takes True for 1.
    @field_validator("*", mode="before")
    @classmethod
    def _no_switch_for_a_number(cls, value: Any, info: ValidationInfo) -> Any:
        types = _types(cls.model_fields[info.field_name or ""].annotation)
        given = value if isinstance(value, list | tuple) else [value]
        if bool not in types and types & {int, float} and any(isinstance(x, bool) for x in given):
            raise ValueError(f"should be a number (got {value})")
        return value


class Patch(Section):
    """Some keys of a section; the schema has no defaults, since a key left out keeps its value."""

    section: ClassVar[type[BaseModel]]

    @classmethod
    def __get_pydantic_json_schema__(cls, core_schema: Any, handler: Any) -> dict[str, Any]:
        schema: dict[str, Any] = handler(core_schema)
        for key in handler.resolve_ref_schema(schema).get("properties", {}).values():
            key.pop("default", None)
        return schema


def patch_of(section: type[BaseModel], without: tuple[str, ...] = (), **more: Any) -> type[Patch]:
    """A model with the same keys and types as `section`, every one of them optional.

    With it a study overrides a few keys of a known task or method, and each is checked and
    documented. `without` leaves fields out, `more` adds some: name=(type, default).
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
    patch = create_model(f"{section.__name__}Patch", __base__=Patch, **fields, **more)
    patch.section = section
    return patch


def written(section: BaseModel, without: tuple[str, ...] = ()) -> dict[str, Any]:
    """The keys that the user wrote, section by section."""
    keys = section.model_dump(exclude_unset=True, by_alias=True)
    return {key: value for key, value in keys.items() if key not in without}


def merge(base: dict[str, Any], patch: BaseModel | dict[str, Any]) -> dict[str, Any]:
    """`base` with the keys that are written in `patch`, section by section."""
    merged = dict(base)
    for key, value in (written(patch) if isinstance(patch, BaseModel) else patch).items():
        below = merged.get(key)
        if isinstance(below, dict) and isinstance(value, dict):
            value = merge(below, value)
        merged[key] = value
    return merged
