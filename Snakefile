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
include: "workflow/rules/targets.smk"


# results/<study>/config.yaml, the study with what the command line changed: every stage is given it,
# and has what it reads of it in its parameters. No rule makes it, since Snakemake does not compare
# the parameters of a job while the job before it runs, be it joined through ancient() only.
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
