# The whole study, from raw rows to tables and figures: `snakemake --configfile config/demo.yaml`.
#
# A study file replaces the default one; it is not merged into it.
if not workflow.overwrite_configfiles:

    configfile: f"{workflow.basedir}/config/demo.yaml"


report: "workflow/report/study.rst"


include: "workflow/rules/common.smk"
include: "workflow/rules/data.smk"
include: "workflow/rules/train.smk"
include: "workflow/rules/analyse.smk"


# Every stage reads results/<study>/config.yaml: the study, with the changes of the command line. What
# a stage uses of it is in the stage's parameters. No rule makes the file: Snakemake would not compare
# a job's parameters if another job had to run before it, not even with ancient().
onstart:
    with explained():
        JOBS.before_start(runs_to_train())
    write_study(STUDY, STUDY_FILE)
    if STUDY.tracking.enabled:
        TRACKER.start()


onsuccess:
    TRACKER.end()


onerror:
    TRACKER.end()


rule all:
    """The whole study: its tables, its figures and its report, and the runs, should one be lost."""
    default_target: True
    input:
        run_results(),
        rules.tables.output,
        rules.figures.output,
        rules.write_report.output,
        rules.submissions.output if SUBMITTED else [],


rule data:
    """Every task, prepared and tokenised."""
    input:
        expand(TOKENS, task=STUDY.tasks, encoder=STUDY.encoders),


rule runs:
    """Every run."""
    input:
        run_results(),
