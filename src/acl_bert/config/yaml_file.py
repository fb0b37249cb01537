"""YAML files in which a key that stands twice is a fault, not the loss of the first."""

from pathlib import Path
from typing import Any

import yaml

from acl_bert.errors import InputError


class _UniqueKeys(yaml.SafeLoader):
    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen = set()
        for key, _ in node.value:
            if key.value in seen:
                raise yaml.constructor.ConstructorError(
                    problem=f"the key {key.value!r} stands here for the second time",
                    problem_mark=key.start_mark,
                )
            seen.add(key.value)
        return super().construct_mapping(node, deep)


def read_yaml(path: Path) -> Any:
    """The file's content. Raises InputError naming the file and the line of what is wrong."""
    try:
        return yaml.load(path.read_text("utf-8"), _UniqueKeys)  # a SafeLoader
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}; give an existing study file") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: is not YAML: {error}") from None
