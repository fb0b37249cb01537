"""Verbs that say what a study takes, and how far it is."""

import os
from argparse import Namespace
from pathlib import Path

from acl_bert.cli.verbs import RESULTS, STUDY, Verb, context_of, option


def progress(args: Namespace) -> None:
    from acl_bert.study.planned import planned_runs
    from acl_bert.study.progress import progress

    context = context_of(args)
    print(progress(planned_runs(context.study), context.folder))


def plan(args: Namespace) -> None:
    from acl_bert.config.study import load_study
    from acl_bert.planning.hours import Slots
    from acl_bert.planning.page import plan

    source = {"kind": "glue", "folder": str(args.glue_dir)}
    changes = {"source": source} if args.glue_dir else {}
    studies = [load_study(config, changes=changes) for config in args.config]
    slots = Slots(args.jobs, args.cores or len(os.sched_getaffinity(0)), args.gpus)
    print(plan(studies, args.results, slots, args.hardware))


def calibrate(args: Namespace) -> None:
    context = context_of(args)

    from transformers.utils import logging

    from acl_bert.files import write_json
    from acl_bert.runs.calibration import CALIBRATION
    from acl_bert.training.calibrate import calibrate
    from acl_bert.training.hardware import resolve_training

    logging.disable_progress_bar()
    training = resolve_training(context.study.training)
    measured = {name: calibrate(each, training) for name, each in context.study.encoders.items()}
    for name, one in measured.items():
        steps = ", ".join(f"{seconds:.3f} s at {length} tokens" for length, seconds in one["steps"])
        print(f"{name}: a CE step of {one['batch_size']} rows takes {steps}, on {one['device']}")
    write_json(context.folder / CALIBRATION, measured)


VERBS = (
    Verb(progress, "Say how many runs are done, and how long the others will take.", STUDY),
    Verb(
        plan,
        "Say what studies would take: runs, hours, disk.",
        (
            option(
                "--config",
                "Studies, which share their equal runs.",
                type=Path,
                nargs="+",
                required=True,
            ),
            RESULTS,
            option("--cores", "Cores for all jobs; without it, all of this machine.", type=int),
            option("--gpus", "GPUs that runs take.", type=int, default=1),
            option("--jobs", "On a cluster: jobs in its queue at a time.", type=int),
            option(
                "--glue-dir",
                "A folder in GLUE's TSV layout, in place of the study's source.",
                type=Path,
            ),
            option("--hardware", "A GPU of costs.yaml, in place of measured times."),
        ),
    ),
    Verb(calibrate, "Time some steps on this machine, for the plan.", STUDY),
)
