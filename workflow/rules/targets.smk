# Targets only: "run until here" by name.


rule data:
    """Every task, prepared and tokenised."""
    input:
        expand(TOKENS, task=STUDY.tasks, encoder=STUDY.encoders),


rule runs:
    """Every run."""
    input:
        run_results(),
