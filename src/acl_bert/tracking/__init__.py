"""MLflow as a mirror of the result files; reads them, imports no torch."""
