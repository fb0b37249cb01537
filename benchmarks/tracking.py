"""How long a study of many short runs takes to be mirrored into MLflow, and to be found mirrored.

    python benchmarks/tracking.py --runs 1000

The runs are invented: three steps and two epochs each, every file that a run leaves. The store is
SQLite in the study's folder, or the server that MLFLOW_TRACKING_URI names.
"""

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from run_folders import finish_run

from acl_bert.tracking.store import tracking_uri
from acl_bert.tracking.sync import Tracker


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=1000, help="(%(default)s)")
    parser.add_argument("--steps", type=int, default=3, help="of each run (%(default)s)")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        study = Path(folder, "many")
        for seed in range(args.runs):
            finish_run(study, run_hash=f"{seed:064x}", seed=seed, steps=args.steps)
        uri = tracking_uri(None, study)
        for name in ("first", "again"):
            wall, cpu = time.perf_counter(), time.process_time()
            done = Tracker(study, uri).sync()
            wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
            print(f"{name}: {wall:.1f} s ({cpu:.1f} s of this CPU): {done}", flush=True)


if __name__ == "__main__":
    print(f"{os.cpu_count()} cores, {os.environ.get('MLFLOW_TRACKING_URI', 'SQLite')}")
    main()
