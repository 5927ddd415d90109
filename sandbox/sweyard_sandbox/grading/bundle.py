"""The harness as one zip file that Python can run."""

import functools
import io
import zipfile
from importlib.resources import files

MAIN = "import sys\nfrom sweyard_harness.supervise import main\n\nmain(sys.argv[1:])\n"
EPOCH = (1980, 1, 1, 0, 0, 0)


@functools.cache
def harness_zip() -> bytes:
    """Equal sources give equal bytes."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(zipfile.ZipInfo("__main__.py", EPOCH), MAIN)
        for file in sorted(files("sweyard_sandbox.grading.harness").iterdir(), key=lambda file: file.name):
            if file.name.endswith(".py"):
                archive.writestr(zipfile.ZipInfo(f"sweyard_harness/{file.name}", EPOCH), file.read_bytes())
    return buffer.getvalue()
