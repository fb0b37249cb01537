# REQUIRED INPUTS
#   results/<study>/runs/…                       every run, from train.smk
# OUTPUTS
#   results/<study>/runs.csv, exits.csv          one row a run and metric; one a run, exit, metric
#   results/<study>/timings.csv                  one row a run
#   results/<study>/early_exit.csv               sweeps of early exiting over the saved logits
#   results/<study>/gradients.csv                the angles at every step, where a gate observes
#   results/<study>/clusters.csv, tsne.csv       how classes part at the first quarter's exit
#   results/<study>/tables/<table>.{csv,md,tex}, tables/layer_scores.csv
#   results/<study>/figures/<figure>.{png,pdf}
#   results/<study>/submissions/                 for GLUE's server, where test sets were predicted
#   results/<study>/report.html                  one page with all of it, which opens offline
#   results/<study>/paper/                       the LaTeX tables and PDF figures, to be included
#
# Which tables and figures a study has depends on its methods: see study/layout.py, `Layout.outputs`.


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


rule gradients:
    """Gather the angles between the two gradients from the histories of the runs that observe."""
    input:
        runs=run_results(of=LAYOUT.observing),
        data=expand(DATA, task=STUDY.tasks),
    output:
        f"{STUDY_DIR}/gradients.csv",
    log:
        f"{STUDY_DIR}/logs/gradients.log",
    localrule: True
    conda:
        "../../environment.yml"
    params:
        config=STUDY_FILE,
        observed=LAYOUT.observing,
    shell:
        "python -m acl_bert gradients"
        " --config {params.config:q}"
        " --complete"
        " > {log:q} 2>&1"


rule clusters:
    """Look at the representations: how classes part, and their t-SNE."""
    input:
        runs=run_results(of=CLUSTERED),
        data=expand(DATA, task=STUDY.tasks),
    output:
        clusters=f"{STUDY_DIR}/clusters.csv",
        tsne=f"{STUDY_DIR}/tsne.csv",
    log:
        f"{STUDY_DIR}/logs/clusters.log",
    conda:
        "../../environment.yml"
    params:
        config=STUDY_FILE,
        clusters=CLUSTERED,
    shell:
        "python -m acl_bert clusters"
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
        gradients=f"{STUDY_DIR}/gradients.csv",
        clusters=f"{STUDY_DIR}/clusters.csv",
        claims=CLAIMS,
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
    localrule: True
    conda:
        "../../environment.yml"
    params:
        config=STUDY_FILE,
        shown=json.dumps(SHOWN),
    shell:
        "python -m acl_bert tables"
        " --config {params.config:q}"
        " --claims {input.claims:q}"
        " > {log:q} 2>&1"


rule figures:
    """Draw the figures, every seed visible."""
    input:
        runs=f"{STUDY_DIR}/runs.csv",
        exits=f"{STUDY_DIR}/exits.csv",
        timings=f"{STUDY_DIR}/timings.csv",
        curves=f"{STUDY_DIR}/early_exit.csv",
        gradients=f"{STUDY_DIR}/gradients.csv",
        clusters=f"{STUDY_DIR}/clusters.csv",
        tsne=f"{STUDY_DIR}/tsne.csv",
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
    localrule: True
    conda:
        "../../environment.yml"
    params:
        config=STUDY_FILE,
        shown=json.dumps(SHOWN),
    shell:
        "python -m acl_bert figures" " --config {params.config:q}" " > {log:q} 2>&1"


rule write_report:
    """Put what came out, and what is missing, on one page; and what a paper includes in a folder."""
    input:
        rules.tables.output,
        rules.figures.output,
        claims=CLAIMS,
        captions=expand(
            f"{CAPTIONS}/{{name}}.rst",
            name=[f"{name}_table" for name in TABLES]
            + [f"{name}_figure" for name in FIGURES],
        ),
    output:
        html=f"{STUDY_DIR}/report.html",
        paper=directory(f"{STUDY_DIR}/paper"),
    log:
        f"{STUDY_DIR}/logs/report.log",
    localrule: True
    conda:
        "../../environment.yml"
    params:
        config=STUDY_FILE,
        captions=lambda wildcards, input: str(Path(input.captions[0]).parent),
        deviations=deviations(STUDY),
        tracking=STUDY.tracking.enabled,
    shell:
        "python -m acl_bert report"
        " --config {params.config:q}"
        " --claims {input.claims:q}"
        " --captions {params.captions:q}"
        " > {log:q} 2>&1"


rule submissions:
    """Write the files that GLUE's server takes, of each encoder and method."""
    input:
        runs=run_results(of=STUDY.methods),
        data=expand(DATA, task=STUDY.tasks),
    output:
        directory(f"{STUDY_DIR}/submissions"),
    log:
        f"{STUDY_DIR}/logs/submissions.log",
    localrule: True
    conda:
        "../../environment.yml"
    params:
        config=STUDY_FILE,
        shown=json.dumps(SHOWN),
        submitted=SUBMITTED,
    shell:
        "python -m acl_bert submissions"
        " --config {params.config:q}"
        " --complete"
        " > {log:q} 2>&1"
