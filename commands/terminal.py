"""What every command has on a terminal: the options that several share, tables, a bar of progress, and how it ends
when it is asked to."""

import csv
import io
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import click

from warehouse.errors import DraftboardError, InvalidInput
from warehouse.filters import FILTER_FIELDS, Filters
from warehouse.json_text import for_terminal, json_text
from warehouse.storage.cache import warehouse_path

if TYPE_CHECKING:
    from analysis.money.paying import Paying, Price
    from answers.decide.values import DecideQuestion
    from warehouse.store import Reader


# --- Options that several commands share: of a decision, of money, of who writes something down.


Command = Callable[..., Any]
#: Where launches run: what ``--on`` takes; and where they go on when nobody waits for them.
PLACES, QUEUED_AT = ("local", "slurm", "ray", "kubernetes"), ("slurm", "kubernetes")


def _tell_excluded_at_the_end(ctx: click.Context, _: click.Parameter, value: Any) -> Any:
    ctx.call_on_close(lambda: _tell_excluded(ctx.params))
    return value


def _tell_excluded(given: Mapping[str, Any]) -> None:
    from warehouse import annotations

    root = warehouse_path(given.get("warehouse"))
    # Whatever is wrong with the warehouse, the command itself has said it.
    with suppress(DraftboardError):
        if annotations.excluded_runs(root):
            from warehouse.queries import exclusions_sentence, left_out

            filters = filters_from(given) if set(FILTER_FIELDS) <= set(given) else Filters()
            sentence = exclusions_sentence(left_out(root, filters))
            if sentence:
                click.echo(sentence, err=True)


_WAREHOUSE: dict[str, Any] = {
    "type": click.Path(path_type=Path),
    "help": "Folder of the warehouse [DRAFTBOARD_WAREHOUSE, else data/warehouse].",
}
#: The command ends with a sentence on stderr where its answer left out runs that are excluded.
warehouse_option = click.option("--warehouse", callback=_tell_excluded_at_the_end, **_WAREHOUSE)
#: For a command that shows, or writes of, the excluded runs themselves, or reads no result.
whole_warehouse_option = click.option("--warehouse", **_WAREHOUSE)
#: Prints the same answer as one JSON object.
json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")


def reading(warehouse: Path | None, everything: bool = False) -> "Reader":
    """Open the warehouse that a command was given, of ``everything`` the excluded runs too."""
    from warehouse.store import Reader

    return Reader(warehouse_path(warehouse), everything=everything)


def with_options(*options: Command) -> Command:
    """Return what adds these options to a command, in this order in its ``--help``."""

    def add(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return add


#: Lets pairs differ in a field.
allow_option = click.option(
    "--allow",
    multiple=True,
    metavar="FIELD",
    help="Let pairs differ in this field, e.g. engine_version, or in one server argument, e.g. "
    "server_args.max-num-seqs; they stay marked. Repeatable.",
)

_budget_option = click.option(
    "--max-regression",
    multiple=True,
    metavar="[METRIC=]SIZE",
    help="How much worse is still fine, e.g. itl=3%, ttft.p95=10% or 5% for all [5%]. Repeatable.",
)
_open_exit_option = click.option(
    "--open-exit",
    type=click.IntRange(0, 2),
    default=2,
    show_default=True,
    help="Exit status where the evidence is not enough.",
)
#: The options of a judgement by budgets.
budget_options = with_options(_budget_option, _open_exit_option)
#: The options of a judgement over nights.
judging_options = with_options(
    _budget_option,
    click.option(
        "--since",
        type=click.DateTime(["%Y-%m-%d"]),
        metavar="YYYY-MM-DD",
        help="Only nights from this day on (UTC).",
    ),
    _open_exit_option,
)

#: One repeatable option for each filter field; ``unknown`` matches what was not recorded.
filter_options = with_options(
    *(
        click.option(
            f"--{name.replace('_', '-')}",
            name,
            multiple=True,
            metavar="VALUE",
            help=f"Only this {name.replace('_', ' ')}; repeatable.",
        )
        for name in FILTER_FIELDS
    )
)


def filters_from(given: Mapping[str, Any]) -> Filters:
    """Return the filters among a command's parameters, e.g. ``{"dataset": ("code",), …}``."""
    chosen: dict[str, Any] = {name: tuple(given[name]) for name in FILTER_FIELDS}
    return Filters(**chosen)


# --- What a decision is asked for, as the options of every command that shows one.


question_options = with_options(
    click.option(
        "--load", metavar="LOAD",
        help="Your load: 16 (requests at once), 16/s, or the shares of your output tokens over "
        "several, 1=0.2,8=0.5,64=0.3 [the largest measured].",
    ),
    click.option("--slo", help="Only arms that meet it, e.g. 'ttft:p95<200ms; itl:p99<10ms'."),
    click.option(
        "--objective", type=click.Choice(["throughput", "latency", "cost"]), default="throughput",
        show_default=True, help="What the choice is for.",
    ),
    click.option(
        "--mix", metavar="DATASET=SHARE,…",
        help="Your traffic, e.g. code=0.7,prose=0.3 [all datasets alike].",
    ),
    click.option(
        "--nowhere-worse", metavar="SIZE",
        help="A yes allows no interval to reach further below zero than this, e.g. 3%.",
    ),
    allow_option,
)  # fmt: skip


def question_from(given: Mapping[str, Any]) -> "DecideQuestion":
    """Return the question that a command's parameters ask. Raises InvalidInput for a mix that is
    none."""
    from answers.decide.values import DecideQuestion, mix_from

    worse = given["nowhere_worse"]
    return DecideQuestion(
        filters=filters_from(given), objective=given["objective"], load=given["load"],
        slo=given["slo"], mix=mix_from(given["mix"]), allow=tuple(given["allow"]),
        nowhere_worse=None if worse is None else share_from("--nowhere-worse", worse),
    )  # fmt: skip


def share_from(option: str, text: str) -> float:
    """Read a share from 0 up to, not including, 1: ``3%`` as 0.03. Raises InvalidInput."""
    try:
        share = float(text.strip().removesuffix("%")) / 100
    except ValueError:
        share = -1.0
    if not 0 <= share < 1:
        raise InvalidInput(f"{option}: {text!r} is no size; write one like 3%.")
    return share


# --- What GPUs cost, as the options of every command that counts money, and the basis that follows.


price_options = with_options(
    click.option("--usd-per-hour", type=float, help="Your price: USD per hour of an instance."),
    click.option("--gpus-per-instance", type=int, help="GPUs that this price buys [1]."),
    click.option("--gpus-used", type=int, help="GPUs behind the throughput [as recorded]."),
    click.option(
        "--utilisation", type=float, default=1.0, show_default=True,
        help="Share of the paid time in which the server is that busy, 0-1.",
    ),
    click.option("--price", metavar="NAME", help="A price of the list, by its name."),
    click.option(
        "--prices", type=click.Path(path_type=Path), metavar="FILE",
        help="Your own price list (YAML or CSV: name, gpu, usd_per_hour, date, source).",
    ),
)  # fmt: skip


def price_list(file: Path | None) -> "tuple[Price, ...]":
    """Return the prices of the user's own file, then those that Draftboard brings. Raises
    InvalidInput."""
    from analysis.money.paying import PRICES, own_prices
    from analysis.published.printed import yaml_as_printed

    if file is None:
        return PRICES
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(f"The price list {file} cannot be read: {error}.") from error
    if file.suffix.lower() == ".csv":
        rows: Any = list(csv.DictReader(io.StringIO(text)))
    else:
        rows = yaml_as_printed(text, file.name)
    return (*own_prices(rows, file.name), *PRICES)


def paying_from(given: Mapping[str, Any]) -> "Paying":
    """Return what the options say of money. Raises InvalidInput where they contradict each
    other."""
    from analysis.money.paying import Paying

    return Paying(
        given["usd_per_hour"], given["gpus_per_instance"], given["gpus_used"],
        given["utilisation"], given["price"], price_list(given["prices"]),
    )  # fmt: skip


# --- Who writes a note, an exclusion, an acceptance or a token.


AUTHOR = "DRAFTBOARD_AUTHOR"


def _author_or_unknown(_: click.Context, __: click.Parameter, given: str | None) -> str:
    """The machine's user name is nobody's business: it is never taken."""
    return (given or "").strip() or "unknown"


#: The author's name, else ``unknown``.
author_option = click.option(
    "--author", envvar=AUTHOR, metavar="NAME", callback=_author_or_unknown,
    help=f"Who says so [{AUTHOR}, else unknown].",
)  # fmt: skip


# --- One progress bar for people, shown only when a command takes longer than a second.


_DELAY = 1.0


@contextmanager
def progress(
    what: str, total: int | None, as_bytes: bool = True
) -> Iterator[Callable[[int], None]]:
    """Yield a function that is told how much was done since its last call; it draws on stderr where
    that is a terminal.

    ``total``, in bytes or in steps, is what all of it will add up to; None: only the time so far is
    shown.
    """
    if not sys.stderr.isatty():
        yield lambda done: None
        return
    from rich import progress as rich_progress
    from rich.console import Console

    count = rich_progress.DownloadColumn() if as_bytes else rich_progress.MofNCompleteColumn()
    shown = rich_progress.Progress(
        rich_progress.SpinnerColumn(),
        rich_progress.TextColumn("{task.description}", markup=False),
        *(() if total is None else (rich_progress.BarColumn(), count)),
        rich_progress.TimeElapsedColumn(),
        console=Console(stderr=True), transient=True,
    )  # fmt: skip
    task = shown.add_task(what, total=total)
    delayed = threading.Timer(_DELAY, shown.start)
    delayed.daemon = True
    delayed.start()
    try:
        yield lambda done: shown.advance(task, done)
    finally:
        delayed.cancel()
        delayed.join()
        shown.stop()


@contextmanager
def working(what: str) -> Iterator[None]:
    """Say ``what`` is being done, with the time so far, on stderr where that is a terminal."""
    with progress(what, None):
        yield


# --- How a command that runs for long ends when it is asked to.


@contextmanager
def ended_by_signals(said: str) -> Iterator[None]:
    """Turn Ctrl-C and a scheduler's SIGTERM into KeyboardInterrupt inside; then print ``said`` and
    exit.

    The exit status is 128 + the signal's number, as a shell tells it.
    """

    def stop(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt(number)

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    except KeyboardInterrupt as error:
        number = error.args[0] if error.args else signal.SIGINT
        click.echo(said, err=True)
        raise SystemExit(128 + int(number)) from None
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def errors_end_with_2() -> Iterator[None]:
    """Say an error inside and exit with 2: where exit status 1 is an answer, no error may end with it."""
    try:
        yield
    except DraftboardError as error:
        show(f"draftboard: {error}", err=True)
        raise SystemExit(2) from None


# --- What an answer looks like on a terminal: lines of text, and tables.


class Table(NamedTuple):
    """A table as ``show_table`` takes it. ``narrow``: put columns close together, where many of them have
    to fit; ``spare``: the columns that are left out where the terminal has no room for them, in this
    order."""

    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    title: str = ""
    narrow: bool = False
    spare: Sequence[str] = ()


def show(*parts: str | Table | None, err: bool = False) -> None:
    """Print lines of text and tables one below the other, nothing for None; ``err``: on stderr."""
    for part in parts:
        if isinstance(part, Table):
            show_table(*part, err=err)
        elif part is not None:
            click.echo(part, err=err)


def show_json(value: object, indent: int | None = None) -> None:
    """Print a value as JSON, in one line unless ``indent`` says otherwise."""
    click.echo(json_text(value, indent=indent))


def show_table(
    header: Sequence[str],
    rows: Sequence[Sequence[str]],
    title: str = "",
    narrow: bool = False,
    spare: Sequence[str] = (),
    err: bool = False,
) -> None:
    """Print one table; every cell is text, so that nothing in a name is read as markup. ``narrow`` and
    ``spare``: see ``Table``; ``err``: on stderr.

    Outside a terminal the table is as wide as it needs to be, so that `grep` finds whole lines. On one
    it keeps within the lines: in what all rows are alike is said once, and columns wrap between words.
    """
    # Whoever asks only for help waits for no import.
    from rich import table as rich_table
    from rich.console import Console
    from rich.text import Text

    console = Console(stderr=err)
    columns = [[name, *(for_terminal(row[at]) for row in rows)] for at, name in enumerate(header)]
    widths: list[int | None] = [None] * len(columns)
    gap = 1 if narrow else 2
    if console.is_terminal:
        columns, above = _narrowed(columns, spare, gap, console.width)
        widths = _widths(columns, console.width - gap * (len(columns) - 1))
        if above:
            show(title or None, click.wrap_text(above, console.width), err=err)
            title = ""
    else:
        console = Console(width=400, stderr=err)
    table = rich_table.Table(
        title=title or None, title_justify="left", box=None, pad_edge=False,
        padding=(0, 1, 0, 0) if narrow else (0, 1),
    )  # fmt: skip
    for position, (name, *texts) in enumerate(columns):
        numeric = position > 0 and all(
            text[:1].isdigit() or text[:1] in "+-−" or text in {"unknown", ""} for text in texts
        )
        side: Literal["left", "right"] = "right" if numeric else "left"
        table.add_column(
            name, justify=side, no_wrap=position == 0, overflow="fold", width=widths[position]
        )
    for row in list(zip(*columns, strict=True))[1:]:
        table.add_row(*map(Text, row))
    console.print(table)


def _narrowed(
    columns: list[list[str]], spare: Sequence[str], gap: int, letters: int
) -> tuple[list[list[str]], str]:
    """Return the columns (a name, then its texts) for which a line has room, ``gap`` letters apart, and
    what to say above them: in what all rows are alike, and which of the spare columns are left out."""

    def too_wide(kept: list[list[str]]) -> bool:
        return sum(max(map(len, column)) + gap for column in kept) - gap > letters

    alike = [c for c in columns[1:] if len({*c[1:]}) == 1 < len(c) - 1] if too_wide(columns) else []
    kept = [column for column in columns if column not in alike]
    for name in spare:
        if too_wide(kept):
            kept = [column for column in kept if column[0] != name]
    parts = {
        "All": [" ".join(column[:2]).strip() for column in alike if column[1]],
        "No room here, see --json": [c[0] for c in columns if c not in kept and c not in alike],
    }
    return kept, " ".join(f"{what}: {'; '.join(names)}." for what, names in parts.items() if names)


def _widths(columns: list[list[str]], letters: int) -> list[int | None]:
    """Return how wide each column is where all share so many letters and no word is cut; None where
    that cannot be."""
    widths = [max(map(len, column)) for column in columns]
    least = [max(map(len, " ".join(column).split(" "))) for column in columns]
    while sum(widths) > max(letters, sum(least)):
        widest = max(range(len(widths)), key=lambda at: (widths[at] > least[at], widths[at]))
        widths[widest] -= 1
    return [*widths] if sum(widths) <= letters else [None] * len(widths)


def width() -> int | None:
    """Return how many letters a line of the terminal has; None where the output is no terminal."""
    from rich.console import Console

    console = Console()
    return console.width if console.is_terminal else None


def end_of_path(path: str, letters: int) -> str:
    """Return as much of a path, from its end, as fits: whole parts behind ``…/``, else its last
    letters.

    The beginnings of paths are alike, their ends tell them apart.
    """
    if len(path) <= letters:
        return path
    kept = path[-(letters - 1) :]
    part = kept.find("/")
    return "…" + (kept[part:] if 0 <= part < len(kept) - 1 else kept)


def ends_of_paths(paths: Sequence[str], letters: int) -> list[str]:
    """Return the paths as ``end_of_path`` does; where ends are alike, the parts that differ.

    Many tools give every result one name in a folder of its own: ``…/baseline/c1/…`` tells more
    than the name. Of a part that is too long its end is shown.
    """
    ends = [end_of_path(path, letters) for path in paths]
    if len(set(ends)) == len(set(paths)):
        return ends
    parts = [path.split("/") for path in paths]
    if len({len(one) for one in parts}) > 1:
        return ends
    differ = [len(set(column)) > 1 for column in zip(*parts, strict=True)]
    return [_cut(one, differ, letters) for one in parts]


def _cut(parts: list[str], differ: list[bool], letters: int) -> str:
    """Return the parts that differ, with ``…`` in place of the others; the longest is cut until all
    fit."""
    kept = [part if told else "…" for part, told in zip(parts, differ, strict=True)]
    kept = [part for at, part in enumerate(kept) if part != "…" or kept[at - 1 : at] != ["…"]]
    surplus = len("/".join(kept)) - letters
    if surplus > 0:
        longest = max(range(len(kept)), key=lambda at: len(kept[at]))
        kept[longest] = "…" + kept[longest][surplus + 1 :]
    return "/".join(kept)
