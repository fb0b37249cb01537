# REQUIRED INPUTS
#   results/<study>/tokens/<task>/<encoder>/     from data.smk
# OUTPUTS
#   results/<study>/tracking.txt                 where the study's MLflow store is
#   results/<study>/tuning/<task>/<encoder>/<method>/lambda.json     the chosen λ; scores.json
#   results/<study>/runs/<task>/<encoder>/<method>/seed-<n>/         the files of a run
#   results/<study>/teachers/<task>/<encoder>/<method>/seed-<n>.safetensors
#                                                what a teacher makes of its training rows
#
# A student's teacher, and the first of two stages, is the run of another method with the same
# task, encoder and seed: trained once, its output the input of all that start or learn from it.
# Every run is mirrored into MLflow while it trains. The store is no output: it changes with each.


rule init_tracking:
    """Create the study's MLflow store and experiment."""
    output:
        f"{STUDY_DIR}/tracking.txt",
    log:
        f"{STUDY_DIR}/logs/init_tracking.log",
    benchmark:
        f"{STUDY_DIR}/benchmarks/init_tracking.tsv"
    localrule: True
    conda:
        "../../environment.yml"
    params:
        config=STUDY_FILE,
        tracking=STUDY.tracking.model_dump_json(),
    shell:
        "python -m acl_bert init-tracking"
        " --config {params.config:q}"
        " --marker {output:q}"
        " > {log:q} 2>&1"


rule finetune:
    """Train and score one model."""
    input:
        tracking=TRACKING,
        tokens=TOKENS,
        weight=chosen_lambda,
        teacher=of_teacher,
    output:
        RUN_FILES,
        directory(MODEL) if STUDY.keep_models == "all" else [],
    log:
        f"{STUDY_DIR}/logs/finetune/{{task}}.{{encoder}}.{{method}}.{{seed}}.log",
    benchmark:
        f"{STUDY_DIR}/benchmarks/finetune/{{task}}.{{encoder}}.{{method}}.{{seed}}.tsv"
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
        " > {log:q} 2>&1;"
        " python -m acl_bert progress --config {params.config:q} || true"


ruleorder: finetune_teacher > finetune


use rule finetune as finetune_teacher with:
    output:
        RUN_FILES,
        for_students(directory(MODEL)),
    wildcard_constraints:
        method=one_of({method for method, _ in TEACHERS}),
        encoder=one_of({encoder for _, encoder in TEACHERS}),
    priority: 1


rule teacher_outputs:
    """Compute, once for all students, what a teacher makes of its training rows."""
    input:
        tokens=TOKENS,
        run=f"{RUN}/{run_files.METRICS}",
        model=MODEL,
    output:
        for_students(TEACHER_OUTPUTS),
    log:
        f"{STUDY_DIR}/logs/teacher_outputs/{{task}}.{{encoder}}.{{method}}.{{seed}}.log",
    benchmark:
        f"{STUDY_DIR}/benchmarks/teacher_outputs/{{task}}.{{encoder}}.{{method}}.{{seed}}.tsv"
    wildcard_constraints:
        method=one_of({method for method, _ in TEACHERS}),
        encoder=one_of({encoder for _, encoder in TEACHERS}),
    priority: 1
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
    shell:
        f"{OFFLINE}python -m acl_bert teacher-outputs"
        " --config {params.config:q}"
        " --task {wildcards.task:q}"
        " --encoder {wildcards.encoder:q}"
        " --method {wildcards.method:q}"
        " --seed {wildcards.seed}"
        " > {log:q} 2>&1"


rule tuning_run:
    """Train one model of the λ grid, with a tuning seed; only its selection score is used."""
    input:
        tracking=TRACKING,
        tokens=TOKENS,
        teacher=of_teacher,
    output:
        f"{TUNING_RUN}/{run_files.METRICS}",
    log:
        f"{STUDY_DIR}/logs/tuning/{{task}}.{{encoder}}.{{method}}.{{weight}}.{{seed}}.log",
    benchmark:
        f"{STUDY_DIR}/benchmarks/tuning/{{task}}.{{encoder}}.{{method}}.{{weight}}.{{seed}}.tsv"
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
        " > {log:q} 2>&1;"
        " python -m acl_bert progress --config {params.config:q} || true"


rule choose_lambda:
    """Choose λ by the mean selection score over the tuning seeds."""
    input:
        runs=expand(
            f"{TUNING_RUN}/{run_files.METRICS}",
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
