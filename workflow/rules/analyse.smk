# REQUIRED INPUTS
#   results/<study>/runs/…                       every run, from train.smk
# OUTPUTS
#   results/<study>/runs.csv, exits.csv          one row a run and metric; one a run, exit, metric
#   results/<study>/timings.csv                  one row a run
#   results/<study>/early_exit.csv               sweeps of early exiting over the saved logits
#   results/<study>/gradients.csv                the angles at every step, where a gate observes
#   results/<study>/clusters.csv, tsne.csv       how well classes separate at the first quarter's exit
#   results/<study>/tables/<table>.{csv,md,tex}, tables/layer_scores.csv
#   results/<study>/figures/<figure>.{png,pdf}
#   results/<study>/submissions/                 for GLUE's server, where test sets were predicted
#   results/<study>/report.html                  one page with all of it, which opens offline
#   results/<study>/paper/                       the LaTeX tables and PDF figures, to be included
#
# Which tables and figures a study has depends on its methods: see study/exhibits.py.
COLLECTED = expand(
    f"{STUDY_DIR}/{{name}}.csv",
    name=["runs", "exits", "timings", "early_exit", "gradients", "clusters", "tsne"],
)


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
        verb="sweep",
        config=STUDY_FILE,
        multi_exit=sorted(LAYOUT.multi_exit),
    shell:
        "python -m acl_bert {params.verb}"
        " --config {params.config:q}"
        " --complete"
        " > {log:q} 2>&1"


# How well classes separate in the representations, and their t-SNE.
use rule sweep as clusters with:
    input:
        runs=run_results(of=LAYOUT.clustered),
        data=expand(DATA, task=STUDY.tasks),
    output:
        f"{STUDY_DIR}/clusters.csv",
        f"{STUDY_DIR}/tsne.csv",
    log:
        f"{STUDY_DIR}/logs/clusters.log",
    params:
        verb="clusters",
        config=STUDY_FILE,
        clusters=LAYOUT.clustered,


# The angles between the two gradients, from the histories of the runs that observe them.
use rule sweep as gradients with:
    input:
        runs=run_results(of=LAYOUT.observing),
        data=expand(DATA, task=STUDY.tasks),
    output:
        f"{STUDY_DIR}/gradients.csv",
    log:
        f"{STUDY_DIR}/logs/gradients.log",
    localrule: True
    params:
        verb="gradients",
        config=STUDY_FILE,
        observed=LAYOUT.observing,


# The scores and times of the runs of this study, and of no others.
use rule sweep as collect with:
    input:
        runs=run_results(),
    output:
        f"{STUDY_DIR}/runs.csv",
        f"{STUDY_DIR}/exits.csv",
        f"{STUDY_DIR}/timings.csv",
    log:
        f"{STUDY_DIR}/logs/collect.log",
    localrule: True
    params:
        verb="collect",
        config=STUDY_FILE,


# The files that GLUE's server takes, of each encoder and method.
use rule sweep as submissions with:
    input:
        runs=run_results(of=STUDY.methods),
        data=expand(DATA, task=STUDY.tasks),
    output:
        directory(f"{STUDY_DIR}/submissions"),
    log:
        f"{STUDY_DIR}/logs/submissions.log",
    localrule: True
    params:
        verb="submissions",
        config=STUDY_FILE,
        shown=SHOWN,
        submitted=SUBMITTED,


rule tables:
    """Write the tables: tidy CSV, Markdown, LaTeX."""
    input:
        COLLECTED,
        claims=CLAIMS,
        data=expand(DATA, task=STUDY.tasks),
    output:
        [
            with_caption(exhibit, table, "tables", ["csv", "md", "tex"])
            for exhibit, table in tables_of(LAYOUT)
        ],
        f"{STUDY_DIR}/tables/layer_scores.csv",
    log:
        f"{STUDY_DIR}/logs/tables.log",
    localrule: True
    conda:
        "../../environment.yml"
    params:
        config=STUDY_FILE,
        shown=SHOWN,
    shell:
        "python -m acl_bert tables"
        " --config {params.config:q}"
        " --claims {input.claims:q}"
        " > {log:q} 2>&1"


rule figures:
    """Draw the figures, every seed visible."""
    input:
        COLLECTED,
        data=expand(DATA, task=STUDY.tasks),
    output:
        [
            with_caption(exhibit, figure, "figures", ["png", "pdf"])
            for exhibit, figure in figures_of(LAYOUT)
        ],
    log:
        f"{STUDY_DIR}/logs/figures.log",
    localrule: True
    conda:
        "../../environment.yml"
    params:
        config=STUDY_FILE,
        shown=SHOWN,
    shell:
        "python -m acl_bert figures --config {params.config:q} > {log:q} 2>&1"


rule write_report:
    """Put what came out, and what is missing, on one page; and what a paper includes in a folder."""
    input:
        rules.tables.output,
        rules.figures.output,
        claims=CLAIMS,
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
        captions=[
            entry.caption for _, entry in (*tables_of(LAYOUT), *figures_of(LAYOUT))
        ],
        deviations=deviations(STUDY),
        tracking=STUDY.tracking.enabled,
    shell:
        "python -m acl_bert report"
        " --config {params.config:q}"
        " --claims {input.claims:q}"
        " > {log:q} 2>&1"
