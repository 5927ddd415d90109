"""swebench's own reports on logs that somebody else recorded, written by its code for grading a run again.

    python -m benchmarks.prove.swe_bench_reports ROWS PREDICTIONS RUN

Needs no Docker, unlike swebench's command of the same purpose. Logs and reports lie where swebench has them, below the
working directory: logs/run_evaluation/RUN/MODEL/INSTANCE/test_output.txt and report.json.
"""

import argparse
import json
from pathlib import Path

from swebench.harness.run_evaluation import run_instance
from swebench.harness.utils import make_test_spec


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", type=Path)
    parser.add_argument("predictions", type=Path)
    parser.add_argument("run")
    arguments = parser.parse_args()
    rows = {row["instance_id"]: row for row in map(json.loads, arguments.rows.read_text().splitlines())}
    for prediction in map(json.loads, arguments.predictions.read_text().splitlines()):
        specification = make_test_spec(rows[prediction["instance_id"]])
        run_instance(specification, prediction, None, arguments.run, rewrite_reports=True)


if __name__ == "__main__":
    main()
