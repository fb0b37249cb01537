# REQUIRED INPUTS
#   results/<study>/tokens/<task>/<encoder>/     from data.smk
# OUTPUTS
#   results/<study>/runs/<task>/<encoder>/<method>/seed-<n>.json      names a finished run
#   results/<study>/tuning/<task>/<encoder>/<method>/lambda.json      the chosen λ; scores.json
#   results/store/                                                    the runs, of all studies
#
# A student's teacher, and the first of two stages, is the run of another method with the same
# task, encoder and seed. A job whose run is in the store already ends at once, whatever Snakemake
# thinks of the times of files; one whose teacher's model is gone trains the teacher first.


rule finetune:
    """Train and score one model."""
    input:
        tokens=TOKENS,
        weight=chosen_lambda,
        teacher=teacher_run,
    output:
        RUN,
    log:
        f"{STUDY_DIR}/logs/finetune/{{task}}.{{encoder}}.{{method}}.{{seed}}.log",
    benchmark:
        f"{STUDY_DIR}/benchmarks/finetune/{{task}}.{{encoder}}.{{method}}.{{seed}}.tsv"
    priority: run_priority
    group:
        short_runs
    conda:
        "../../environment.yml"
    threads: STUDY.training.threads
    resources:
        gpu=run_gpus,
        runtime=run_minutes,
    params:
        config=STUDY_FILE,
        settings=run_settings,
        keep_models=STUDY.keep_models,
    shell:
        f"{OFFLINE}python -m acl_bert finetune"
        " --config {params.config:q}"
        " --task {wildcards.task:q}"
        " --encoder {wildcards.encoder:q}"
        " --method {wildcards.method:q}"
        " --seed {wildcards.seed}"
        " --prepared"
        " > {log:q} 2>&1"


rule tuning_run:
    """Train one model of the λ grid, with a tuning seed; only its selection score is used."""
    input:
        tokens=TOKENS,
        teacher=teacher_run,
    output:
        TUNING_RUN,
    log:
        f"{STUDY_DIR}/logs/tuning/{{task}}.{{encoder}}.{{method}}.{{weight}}.{{seed}}.log",
    benchmark:
        f"{STUDY_DIR}/benchmarks/tuning/{{task}}.{{encoder}}.{{method}}.{{weight}}.{{seed}}.tsv"
    priority: run_priority
    group:
        short_runs
    conda:
        "../../environment.yml"
    threads: STUDY.training.threads
    resources:
        gpu=run_gpus,
        runtime=run_minutes,
    params:
        config=STUDY_FILE,
        settings=run_settings,
    shell:
        f"{OFFLINE}python -m acl_bert finetune"
        " --config {params.config:q}"
        " --task {wildcards.task:q}"
        " --encoder {wildcards.encoder:q}"
        " --method {wildcards.method:q}"
        " --seed {wildcards.seed}"
        " --prepared"
        " --lambda {wildcards.weight}"
        " --tuning"
        " > {log:q} 2>&1"


rule choose_lambda:
    """Choose λ by the mean selection score over the tuning seeds."""
    input:
        runs=expand(
            TUNING_RUN,
            weight=STUDY.tuning.lambdas,
            seed=STUDY.tuning.seeds,
            allow_missing=True,
        ),
    output:
        LAMBDA,
        f"{TUNING}/{run_files.LAMBDA_SCORES}",
    log:
        f"{STUDY_DIR}/logs/choose_lambda/{{task}}.{{encoder}}.{{method}}.log",
    benchmark:
        f"{STUDY_DIR}/benchmarks/choose_lambda/{{task}}.{{encoder}}.{{method}}.tsv"
    localrule: True
    conda:
        "../../environment.yml"
    params:
        config=STUDY_FILE,
        tuning=STUDY.tuning.model_dump_json(),
    shell:
        "python -m acl_bert choose-lambda"
        " --config {params.config:q}"
        " --task {wildcards.task:q}"
        " --encoder {wildcards.encoder:q}"
        " --method {wildcards.method:q}"
        " > {log:q} 2>&1"
