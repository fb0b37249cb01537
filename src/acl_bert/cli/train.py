"""Verbs that train."""

import os
import sys
from argparse import Namespace

from acl_bert.cli.tracking import sync
from acl_bert.cli.verbs import ENCODER, METHOD, STUDY, TASK, Verb, context_of, option
from acl_bert.errors import InputError
from acl_bert.starting.client import OWNER


def finetune(args: Namespace) -> None:
    from acl_bert.gpus import claim_gpu
    from acl_bert.runs.files import chosen_lambda, tuning_path
    from acl_bert.study.inputs import bring_up_to_date

    context = context_of(args)
    study, folder = context.study, context.folder
    encoder = args.encoder or next(iter(study.encoders))
    configuration = (args.task, encoder, args.method)
    settings = study.run_settings(*configuration, args.seed, args.weight)
    if args.tuning and args.weight is None:
        raise InputError("--tuning needs the --lambda that is tried")
    if args.weight is None and (tuned := study.lambda_of(args.method)):
        # Refuses a λ that is not chosen yet before anything is made.
        chosen_lambda(tuning_path(folder, args.task, encoder, tuned))
    if not args.prepared:
        bring_up_to_date(study, folder, args.task, encoder)
    # Which GPU this process sees is decided before anything imports torch.
    if settings.training.device != "cpu" and (gpu := claim_gpu()):
        _report(f"takes GPU {gpu}")

    from transformers.utils import logging

    from acl_bert.runs.prune import prune_teachers
    from acl_bert.training.jobs import study_job
    from acl_bert.training.obtain import Trainer

    logging.disable_progress_bar()
    job = study_job(study, folder, *configuration, args.seed, args.weight, args.tuning)
    minutes = study.checkpoints.every_minutes
    trainer = Trainer(context.store, folder, study.code, minutes, _report)
    address = trainer.obtain(
        job, with_model=job.saves_model and study.keeps_model(args.method, encoder)
    )
    _report(f"{context.store.run(address).path}: finished")
    if job.name is None:
        _report("it is none of the study's runs, and not in its tables")
        return
    if study.keep_models == "none":
        prune_teachers(study, folder, *configuration, args.seed)
    if study.tracking.enabled and OWNER not in os.environ:  # a workflow has a tracker
        try:
            sync(context)
        except InputError as error:
            _report(f"warning: {error}")


def _report(line: str) -> None:
    from tqdm import tqdm

    tqdm.write(line)
    sys.stdout.flush()


def choose_lambda(args: Namespace) -> None:
    from acl_bert.runs.files import tuning_path
    from acl_bert.study.tuning import choose_lambda

    context = context_of(args)
    tuning, configuration = context.study.tuning, (args.task, args.encoder, args.method)
    context.study.run_settings(*configuration, tuning.seeds[0])  # refuses unknown names
    folder = tuning_path(context.folder, *configuration)
    print("λ =", choose_lambda(context.store, folder, tuning.lambdas, tuning.seeds))


VERBS = (
    Verb(
        finetune,
        "Train and score one model.",
        (
            *STUDY,
            TASK,
            METHOD,
            option("--encoder", "One of the study's encoders; without it, the first."),
            option("--seed", "The run's seed.", type=int, default=1),
            option(
                "--lambda", "λ for this run, in place of the method's.", dest="weight", type=float
            ),
            option(
                "--prepared",
                "Trust the prepared rows and tokens without a check.",
                action="store_true",
            ),
            option("--tuning", "Train a run of the λ grid, kept apart.", action="store_true"),
        ),
    ),
    Verb(choose_lambda, "Choose λ from the tuning runs.", (*STUDY, TASK, ENCODER, METHOD)),
)
