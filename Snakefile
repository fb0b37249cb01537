# The whole study, from raw rows to tables and figures: `snakemake --configfile config/demo.yaml`.
#
# A study file replaces the default one; it is not merged into it.
if not workflow.overwrite_configfiles:

    configfile: "config/demo.yaml"


include: "workflow/rules/common.smk"
include: "workflow/rules/data.smk"
include: "workflow/rules/train.smk"
include: "workflow/rules/analyse.smk"
include: "workflow/rules/targets.smk"


rule all:
    """Tables and figures of the whole study."""
    default_target: True
    input:
        rules.tables.output,
        rules.figures.output,
