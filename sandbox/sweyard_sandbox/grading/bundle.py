"""The harness as one zip file that Python can run."""

import functools
import importlib.util
import io
import marshal
import zipfile
from importlib.resources import files

MAIN = "import sys\nfrom sweyard_harness.supervise import main\n\nmain(sys.argv[1:])\n"
EPOCH = (1980, 1, 1, 0, 0, 0)


@functools.cache
def harness_zip() -> bytes:
    """Equal sources give equal bytes. Compiled modules serve Pythons of this one's version, others compile anew."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(zipfile.ZipInfo("__main__.py", EPOCH), MAIN)
        for file in sorted(files("sweyard_sandbox.grading.harness").iterdir(), key=lambda file: file.name):
            if file.name.endswith(".py"):
                path, source = f"sweyard_harness/{file.name}", file.read_bytes()
                archive.writestr(zipfile.ZipInfo(path, EPOCH), source)
                archive.writestr(zipfile.ZipInfo(f"{path}c", EPOCH), compiled(path, source))
    return buffer.getvalue()


def compiled(path: str, source: bytes) -> bytes:
    """Content of the .pyc file, of the kind that is not checked against its source (PEP 552)."""
    header = importlib.util.MAGIC_NUMBER + (1).to_bytes(4, "little") + importlib.util.source_hash(source)
    return header + marshal.dumps(compile(source, path, "exec", dont_inherit=True))
