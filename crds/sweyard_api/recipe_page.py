"""The page about the recipes: what each is for, where its values come from, and the hardware that it asks for."""

from collections.abc import Iterator
from pathlib import Path

from sweyard_api.markdown import as_text, table
from sweyard_api.phases import PHASES
from sweyard_api.presets import list_presets, load_preset
from sweyard_api.resolve import resolve
from sweyard_api.training_run import TrainingRunSpec
from sweyard_api.yaml_text import load_document

_EXAMPLES = Path("examples")
_INTRODUCTION = """# Recipes

A preset fills in what a file leaves out; a field that the file sets wins. `sweyard presets` lists them, and
`sweyard resolve -f FILE` prints the whole config that results. The hardware below is what the example file asks for,
counted from that config; the sources are those that the preset itself names. What of this has met a GPU is told in
[what never ran on a GPU](gpu-status.md).
"""


def recipe_page() -> str:
    """Every preset with an example, as Markdown."""
    files = [*sorted(_EXAMPLES.glob("recipes/*.yaml")), _EXAMPLES / "tiny/trainingrun.yaml"]
    specs = {file: load_document(file.read_text(encoding="utf-8"))["spec"] for file in files}
    used = {spec["preset"]: (file, resolve(spec)) for file, spec in specs.items() if "preset" in spec}
    if missing := set(list_presets()) - used.keys():
        raise LookupError(f"no example file uses {', '.join(sorted(missing))}: add one to examples/recipes")
    overview = table(
        ("preset", "GPUs", "sandboxes at once", "steps"),
        [
            (
                f"[`{name}`](#{name})",
                str(_trainer_gpus(spec) + _engine_gpus(spec)),
                str(_sandboxes(spec)),
                str(spec.steps),
            )
            for name, (_, spec) in used.items()
        ],
    )
    return "\n".join([_INTRODUCTION, overview, *(line for name in used for line in _recipe(name, *used[name]))])


def _recipe(name: str, file: Path, spec: TrainingRunSpec) -> Iterator[str]:
    preset = load_preset(name)
    yield f"## {name}\n"
    yield f"{as_text(preset.summary)}\n"
    yield f"- **Source.** {as_text(preset.source)}"
    yield f"- **Hardware.** {'; '.join(_hardware(spec))}."
    if name in PHASES:
        yield f"- **Phases.** {', '.join(f'`--phase {phase}`' for phase in PHASES[name])}."
    yield f"- **File.** `{file}`\n"


def _hardware(spec: TrainingRunSpec) -> Iterator[str]:
    trainer, engines = _trainer_gpus(spec), _engine_gpus(spec)
    if not trainer + engines:
        yield "no GPU"
    else:
        yield f"trainer: {_count(spec.trainer.replicas, 'pod')} of {_count(trainer // spec.trainer.replicas, 'GPU')}"
        yield f"engines: {_engines(spec)}"
    requests = spec.sandboxes.template.resources.requests
    yield f"{_sandboxes(spec)} sandboxes of {requests['cpu']} CPU and {requests['memory']} memory"
    yield f"a volume of {spec.storage.size}"


def _engines(spec: TrainingRunSpec) -> str:
    if spec.inference.placement == "external":
        return "elsewhere"
    shared = ", which are the trainer's" * (spec.inference.placement == "colocated")
    return f"{spec.inference.replicas} of {_count(spec.inference.gpus_per_engine, 'GPU')}{shared}"


def _trainer_gpus(spec: TrainingRunSpec) -> int:
    return 0 if spec.trainer.device == "cpu" else spec.trainer.replicas * spec.trainer.processes_per_replica


def _engine_gpus(spec: TrainingRunSpec) -> int:
    """Beyond the trainer's own."""
    apart = spec.inference.placement == "separate" and spec.trainer.device != "cpu"
    return spec.inference.replicas * spec.inference.gpus_per_engine if apart else 0


def _sandboxes(spec: TrainingRunSpec) -> int:
    return spec.sandboxes.replicas


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'s' * (number != 1)}"
