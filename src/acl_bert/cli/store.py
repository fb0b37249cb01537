"""The verb that makes room in the store of runs."""

import shutil
from argparse import Namespace

from acl_bert.cli.verbs import RESULTS, Verb, option


def prune(args: Namespace) -> None:
    from acl_bert.planning.disk import in_bytes
    from acl_bert.runs.prune import prunable

    folders = prunable(args.results, args.unnamed_runs)
    files = (path for folder in folders for path in folder.rglob("*") if path.is_file())
    size = in_bytes(sum(path.stat().st_size for path in files))
    for folder in folders:
        print(folder)
        if not args.dry_run:
            shutil.rmtree(folder, ignore_errors=True)
    print(f"{len(folders)} folders, {size} {'would be freed' if args.dry_run else 'freed'}")


VERBS = (
    Verb(
        prune,
        "Remove models no study needs, damaged runs, unfinished runs of other code.",
        (
            RESULTS,
            option("--dry-run", "Only say what would be removed.", action="store_true"),
            option("--unnamed-runs", "Remove finished runs of no study too.", action="store_true"),
        ),
    ),
)
