"""Environment that keeps tools from sizing themselves by the cores of the whole node."""

import math

_COUNTS = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
    "RAYON_NUM_THREADS",
    "GOMAXPROCS",
    "UV_THREADPOOL_SIZE",
    "PYTHON_CPU_COUNT",
    "PYTEST_XDIST_AUTO_NUM_WORKERS",
    "CARGO_BUILD_JOBS",
    "CMAKE_BUILD_PARALLEL_LEVEL",
)


def build_thread_caps(cpus: float) -> dict[str, str]:
    """Variables that cap thread and worker pools at `cpus`, rounded up, at least 1. A command's own `env` wins."""
    count = str(max(1, math.ceil(cpus)))
    return {name: count for name in _COUNTS} | {"MAKEFLAGS": f"-j{count}"}
