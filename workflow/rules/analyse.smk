# REQUIRED INPUTS
#   results/<study>/runs/…                       every run, from train.smk
# OUTPUTS
#   results/<study>/runs.csv, timings.csv        one row a run and metric; one row a run
#   results/<study>/tables/finetuning.{csv,md,tex}
#   results/<study>/figures/finetuning.{png,pdf}


rule collect:
    """Gather the runs of the study, those of its config and no others."""
    input:
        runs=run_results(),
    output:
        runs=f"{STUDY_DIR}/runs.csv",
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


rule tables:
    """Write the tables: tidy CSV, Markdown, LaTeX."""
    input:
        runs=f"{STUDY_DIR}/runs.csv",
        data=expand(DATA, task=STUDY.tasks),
    output:
        report(
            expand(
                f"{STUDY_DIR}/tables/finetuning.{{ending}}",
                ending=["csv", "md", "tex"],
            ),
            caption="../report/finetuning_table.rst",
            category="Fine-tuning",
        ),
    log:
        f"{STUDY_DIR}/logs/tables.log",
    benchmark:
        f"{STUDY_DIR}/benchmarks/tables.tsv"
    localrule: True
    conda:
        "../../environment.yml"
    params:
        config=STUDY_FILE,
        shown=json.dumps(STUDY.shown()),
    shell:
        "python -m acl_bert tables" " --config {params.config:q}" " > {log:q} 2>&1"


rule figures:
    """Draw the figures, every seed visible."""
    input:
        runs=f"{STUDY_DIR}/runs.csv",
        data=expand(DATA, task=STUDY.tasks),
    output:
        report(
            expand(
                f"{STUDY_DIR}/figures/finetuning.{{ending}}", ending=["png", "pdf"]
            ),
            caption="../report/finetuning_figure.rst",
            category="Fine-tuning",
        ),
    log:
        f"{STUDY_DIR}/logs/figures.log",
    benchmark:
        f"{STUDY_DIR}/benchmarks/figures.tsv"
    localrule: True
    conda:
        "../../environment.yml"
    params:
        config=STUDY_FILE,
        shown=json.dumps(STUDY.shown()),
    shell:
        "python -m acl_bert figures" " --config {params.config:q}" " > {log:q} 2>&1"
