# REQUIRED INPUTS
#   results/<study>/runs/…                       every run, from train.smk
# OUTPUTS
#   results/<study>/runs.csv, exits.csv          one row a run and metric; one a run, exit, metric
#   results/<study>/timings.csv                  one row a run
#   results/<study>/early_exit.csv               sweeps of early exiting over the saved logits
#   results/<study>/tables/<table>.{csv,md,tex}, tables/layer_scores.csv
#   results/<study>/figures/<figure>.{png,pdf}
#
# Which tables and figures a study has depends on its methods: see study/layout.py, `outputs`.


rule collect:
    """Gather the runs of the study, those of its config and no others."""
    input:
        runs=run_results(),
    output:
        runs=f"{STUDY_DIR}/runs.csv",
        exits=f"{STUDY_DIR}/exits.csv",
        timings=f"{STUDY_DIR}/timings.csv",
    log:
        f"{STUDY_DIR}/logs/collect.log",
    benchmark:
        f"{STUDY_DIR}/benchmarks/collect.tsv"
    localrule: True
    conda:
        "../../environment.yml"
    params:
        config=STUDY_FILE,
    shell:
        "python -m acl_bert collect"
        " --config {params.config:q}"
        " --complete"
        " > {log:q} 2>&1"


rule sweep:
    """Early exiting over the saved logits: every criterion, all its thresholds."""
    input:
        runs=run_results(),
        data=expand(DATA, task=STUDY.tasks),
    output:
        f"{STUDY_DIR}/early_exit.csv",
    log:
        f"{STUDY_DIR}/logs/sweep.log",
    benchmark:
        f"{STUDY_DIR}/benchmarks/sweep.tsv"
    localrule: True
    conda:
        "../../environment.yml"
    params:
        config=STUDY_FILE,
        multi_exit=SHOWN["multi_exit"],
    shell:
        "python -m acl_bert sweep"
        " --config {params.config:q}"
        " --complete"
        " > {log:q} 2>&1"


rule tables:
    """Write the tables: tidy CSV, Markdown, LaTeX."""
    input:
        runs=f"{STUDY_DIR}/runs.csv",
        exits=f"{STUDY_DIR}/exits.csv",
        timings=f"{STUDY_DIR}/timings.csv",
        curves=f"{STUDY_DIR}/early_exit.csv",
        data=expand(DATA, task=STUDY.tasks),
    output:
        [
            report(
                expand(
                    f"{STUDY_DIR}/tables/{table}.{{ending}}",
                    ending=["csv", "md", "tex"],
                ),
                caption=f"../report/{table}_table.rst",
                category=REPORT_CATEGORIES[table],
            )
            for table in TABLES
        ],
        f"{STUDY_DIR}/tables/layer_scores.csv",
    log:
        f"{STUDY_DIR}/logs/tables.log",
    benchmark:
        f"{STUDY_DIR}/benchmarks/tables.tsv"
    localrule: True
    conda:
        "../../environment.yml"
    params:
        config=STUDY_FILE,
        shown=json.dumps(SHOWN),
    shell:
        "python -m acl_bert tables" " --config {params.config:q}" " > {log:q} 2>&1"


rule figures:
    """Draw the figures, every seed visible."""
    input:
        runs=f"{STUDY_DIR}/runs.csv",
        exits=f"{STUDY_DIR}/exits.csv",
        timings=f"{STUDY_DIR}/timings.csv",
        curves=f"{STUDY_DIR}/early_exit.csv",
        data=expand(DATA, task=STUDY.tasks),
    output:
        [
            report(
                expand(
                    f"{STUDY_DIR}/figures/{figure}.{{ending}}", ending=["png", "pdf"]
                ),
                caption=f"../report/{figure}_figure.rst",
                category=REPORT_CATEGORIES[figure],
            )
            for figure in FIGURES
        ],
    log:
        f"{STUDY_DIR}/logs/figures.log",
    benchmark:
        f"{STUDY_DIR}/benchmarks/figures.tsv"
    localrule: True
    conda:
        "../../environment.yml"
    params:
        config=STUDY_FILE,
        shown=json.dumps(SHOWN),
    shell:
        "python -m acl_bert figures" " --config {params.config:q}" " > {log:q} 2>&1"
