"""MLflow as a mirror of the result files; reads them, imports no torch."""

import os

# Read once, when MLflow is imported: it would send usage data, where a study may have no network.
os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
