# The runs. Their folders lie in results/store/, shared by all studies; a rule's output is the small
# file that names one. A student's teacher, and the first of two stages, is the run of another method
# with the same task, encoder and seed. A job whose run is in the store already ends at once; one
# whose teacher's model is gone trains the teacher first. None needs the network: all that comes from
# it was fetched at the start, or by `prepare` and `tokenise`.


rule finetune:
    """Train and score one model."""
    input:
        tokens=TOKENS,
        weight=JOBS.chosen_lambda,
        teacher=JOBS.teacher,
    output:
        RUN,
    log:
        f"{STUDY_DIR}/logs/finetune/{{task}}.{{encoder}}.{{method}}.{{seed}}.log",
    priority: JOBS.priority
    group:
        short_runs
    conda:
        "../../environment.yml"
    threads: STUDY.training.threads
    resources:
        gpu=JOBS.gpus,
        runtime=JOBS.minutes,
    params:
        config=STUDY_FILE,
        settings=JOBS.run_settings,
        keep_models=STUDY.keep_models,
        tuning="",
    shell:
        "HF_HUB_OFFLINE=1 python -m acl_bert finetune"
        " --config {params.config:q}"
        " --task {wildcards.task:q}"
        " --encoder {wildcards.encoder:q}"
        " --method {wildcards.method:q}"
        " --seed {wildcards.seed}"
        " --prepared {params.tuning}"
        " > {log:q} 2>&1"


use rule finetune as tuning_run with:
    # One model of the λ grid, with a tuning seed; only its selection score is used.
    input:
        tokens=TOKENS,
        teacher=JOBS.teacher,
    output:
        TUNING_RUN,
    log:
        f"{STUDY_DIR}/logs/tuning/{{task}}.{{encoder}}.{{method}}.{{weight}}.{{seed}}.log",
    params:
        config=STUDY_FILE,
        settings=JOBS.run_settings,
        tuning="--tuning --lambda {weight}",


rule choose_lambda:
    """Choose λ by the mean selection score over the tuning seeds."""
    input:
        expand(
            TUNING_RUN,
            weight=STUDY.tuning.lambdas,
            seed=STUDY.tuning.seeds,
            allow_missing=True,
        ),
    output:
        f"{TUNING}/{run_files.LAMBDA}",
        f"{TUNING}/{run_files.LAMBDA_SCORES}",
    log:
        f"{STUDY_DIR}/logs/choose_lambda/{{task}}.{{encoder}}.{{method}}.log",
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
