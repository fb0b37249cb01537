# Targets only: "run until here" by name.


rule data:
    """Every task, prepared and tokenised."""
    input:
        expand(
            f"{STUDY_DIR}/tokens/{{task}}/{{encoder}}",
            task=STUDY.tasks,
            encoder=STUDY.encoders,
        ),


rule runs:
    """Every run."""
    input:
        expand("{run}/metrics.json", run=run_folders()),
