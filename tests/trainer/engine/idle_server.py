"""Stands in for vLLM's server: takes any arguments, writes its environment to $REPORT, and waits for its end."""

import json
import os
import sys
import time
from pathlib import Path

if __name__ == "__main__":
    report = {"arguments": sys.argv[1:], "gpus": os.environ["CUDA_VISIBLE_DEVICES"], "pid": os.getpid()}
    Path(os.environ["REPORT"], str(os.getpid())).write_text(json.dumps(report))
    time.sleep(600)
