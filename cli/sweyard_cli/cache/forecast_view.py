"""A forecast for people: figures, then a bar for each node, or for each tenth of many."""

from collections.abc import Iterator, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from sweyard_cli.cache.forecast import Forecast, NodeForecast
from sweyard_cli.figures import duration, plural

_MAX_BARS = 40
_BAR_CELLS = 40
_TOLD_IMAGES = 5
_UNITS = ("B", "KB", "MB", "GB", "TB", "PB")


def show_forecast(
    told: Forecast, console: Console, *, bits_per_second: float, pulls_on_demand: bool, asked_sizes: bool
) -> None:
    """Print it."""
    for line in describe(told, bits_per_second, pulls_on_demand, asked_sizes=asked_sizes):
        console.print(line, markup=False)
    if pulls_on_demand or not told.nodes:
        return
    if console.is_terminal:
        console.print(_bars(told))
        return
    for node in told.nodes:
        console.print(_line(node, told.num_sized > 0), markup=False)


def describe(
    told: Forecast, bits_per_second: float, pulls_on_demand: bool, *, asked_sizes: bool = False
) -> Iterator[str]:
    """A sentence a line."""
    families = "1 family" if told.num_families == 1 else f"{told.num_families:,} families"
    yield f"{plural(len(told.images), 'image')} in {families} (images of one repository, which share layers)"
    if pulls_on_demand:
        yield "copies: 0, so nothing is pulled ahead: the first sandbox of an image on a node pulls it"
        return
    yield from _tell_pulls(told)
    if told.num_sized:
        yield from _tell_bytes(told, bits_per_second)
    elif asked_sizes:
        yield "sizes are unknown, since no registry told any: nothing can be said of bytes and hours"
    else:
        yield "sizes are unknown: --sizes asks the registries for them"
    if told.unfit:
        some = ", ".join(told.unfit[:_TOLD_IMAGES])
        more = f" and {len(told.unfit) - _TOLD_IMAGES:,} more" if len(told.unfit) > _TOLD_IMAGES else ""
        yield f"no node has room for {plural(len(told.unfit), 'image')}: {some}{more}"
    left_out = sum(len(node.left_out) for node in told.nodes)
    if left_out:
        yield f"{left_out:,} copies are beyond a node's budget: raise diskBudget, lower copies or add nodes"


def _tell_pulls(told: Forecast) -> Iterator[str]:
    copies = "1 copy" if told.copies == 1 else f"{told.copies:,} copies"
    where = f"{plural(len(told.nodes), 'node')}, {copies} of each image"
    if told.num_reporting is None:
        yield f"{where}: {told.num_images:,} pulls"
        return
    yield (
        f"{where}: {told.num_images:,} copies, of which nodes hold {told.num_held:,} by their agents' reports, so "
        f"{plural(told.num_images - told.num_held, 'pull')}"
    )
    if silent := len(told.nodes) - told.num_reporting:
        yield f"{plural(silent, 'node')} told nothing, taken for empty: no agent of a cache has reported there"


def _tell_bytes(told: Forecast, bits_per_second: float) -> Iterator[str]:
    if told.num_sized < len(told.images):
        yield f"sizes known of {told.num_sized:,} images; the others are taken for as large on average"
    everywhere = told.single_bytes * len(told.nodes)
    share = f"{told.num_bytes / everywhere:.1%}" if everywhere else "-"
    there = "" if told.num_bytes == told.pull_bytes else f", beside {size(told.num_bytes - told.pull_bytes)} on nodes"
    yield (
        f"{size(told.pull_bytes)} to pull (compressed, shared layers once a node){there}; "
        f"{size(everywhere)} with every image on every node, so {share} of that"
    )
    seconds = told.most_pulled_bytes * 8 / bits_per_second
    yield f"{duration(seconds)} at {bits_per_second / 1e9:g} Gbit/s a node, if the registry keeps up"
    loads = [node.disk_bytes for node in told.nodes]
    mean = sum(loads) / len(loads)
    budget = max((node.budget_bytes or 0 for node in told.nodes), default=0)
    yield (
        f"about {size(mean)} on the disk of a node, {size(max(loads))} on the fullest"
        + (f", of a budget of {size(budget)}, which images of other pods count against too" if budget else "")
    )


def _bars(told: Forecast) -> Table:
    has_bytes = told.num_sized > 0
    top = max(_amount(node, has_bytes) for node in told.nodes)
    if has_bytes:
        top = max([top, *(node.budget_bytes or 0 for node in told.nodes)])
    table = Table(box=None, padding=(0, 1, 0, 0), show_header=False)
    for node in sample(told.nodes):
        filled = round(_BAR_CELLS * _amount(node, has_bytes) / top) if top else 0
        bar = Text("█" * filled, style="red" if node.left_out else "green") + Text("░" * (_BAR_CELLS - filled), "dim")
        table.add_row(Text(node.name), bar, Text(_figures(node, has_bytes)))
    return table


def sample(nodes: Sequence[NodeForecast]) -> Sequence[NodeForecast]:
    """All, or of many a few from the fullest to the emptiest."""
    if len(nodes) <= _MAX_BARS:
        return nodes
    ordered = sorted(nodes, key=lambda node: (node.disk_bytes, node.num_images), reverse=True)
    step = (len(ordered) - 1) / (_MAX_BARS // 2 - 1)
    return [ordered[round(i * step)] for i in range(_MAX_BARS // 2)]


def _amount(node: NodeForecast, has_bytes: bool) -> int:
    return node.disk_bytes if has_bytes else node.num_images


def _figures(node: NodeForecast, has_bytes: bool) -> str:
    parts = [plural(node.num_images, "image")]
    if has_bytes:
        budget = f" of {size(node.budget_bytes)}" if node.budget_bytes else ""
        parts.append(f"{size(node.disk_bytes)}{budget}")
    if node.left_out:
        parts.append(f"{len(node.left_out):,} left out")
    return ", ".join(parts)


def _line(node: NodeForecast, has_bytes: bool) -> str:
    return f"{node.name}: {_figures(node, has_bytes)}"


def size(num_bytes: float) -> str:
    """1.8 GB, 512 MB."""
    unit = 0
    while num_bytes >= 999.5 and unit < len(_UNITS) - 1:
        num_bytes, unit = num_bytes / 1000, unit + 1
    return f"{num_bytes:.3g} {_UNITS[unit]}"
