# Rows from the study's source, checked and split, and their tokens as memory-mapped arrays.


rule prepare:
    """Read, check, limit and split a task's rows; first of all, so that errors show at once."""
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
