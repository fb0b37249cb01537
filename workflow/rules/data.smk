# REQUIRED INPUTS
#   the source that the study names: the hub, GLUE's TSV folder, the user's own files, or nothing
#   for generated tasks
# OUTPUTS
#   results/<study>/data/<task>/                 checked rows: train, selection, dev sets; task.json
#   results/<study>/tokens/<task>/<encoder>/     the same, tokenised, as memory-mapped arrays


rule prepare:
    """Read, check, limit and split a task's rows; first of all, so that a fault shows at once."""
    output:
        directory(DATA),
    log:
        f"{STUDY_DIR}/logs/prepare/{{task}}.log",
    priority: 2
    localrule: True
    conda:
        "../../environment.yml"
    params:
        config=STUDY_FILE,
        settings=JOBS.data_settings,
    shell:
        "python -m acl_bert prepare"
        " --config {params.config:q}"
        " --task {wildcards.task:q}"
        " > {log:q} 2>&1"


rule tokenise:
    """Tokenise a task once for all runs with an encoder; before any training."""
    input:
        data=DATA,
    output:
        directory(TOKENS),
    log:
        f"{STUDY_DIR}/logs/tokenise/{{task}}.{{encoder}}.log",
    priority: 1
    localrule: True
    conda:
        "../../environment.yml"
    params:
        config=STUDY_FILE,
        settings=JOBS.tokens_settings,
    shell:
        "python -m acl_bert tokenise"
        " --config {params.config:q}"
        " --task {wildcards.task:q}"
        " --encoder {wildcards.encoder:q}"
        " > {log:q} 2>&1"
