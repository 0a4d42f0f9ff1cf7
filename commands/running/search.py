"""``draftboard search``: the decision by the fewest minutes."""

import shlex
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from commands.terminal import (
    PLACES,
    Table,
    ended_by_signals,
    filter_options,
    filters_from,
    json_option,
    reading,
    share_from,
    show,
    show_json,
)
from warehouse.errors import InvalidInput
from warehouse.filters import FILTER_FIELDS
from warehouse.storage.cache import named_warehouse, warehouse_path

if TYPE_CHECKING:
    from answers.search.values import SearchReport, SearchTerms
    from commands.running import search_board

_WIDTH = 80
#: Options of a search that measures.
_MEASURING = ("check", "any_outputs", "on", "cluster", "warehouse")


@click.command()
@click.argument("plan", required=False, metavar="[STUDY]", type=click.Path(path_type=Path))
@click.option(
    "--results", type=click.Path(path_type=Path, file_okay=False),
    help="Folder of the results of STUDY; what lies there is not measured again.",
)  # fmt: skip
@click.option(
    "--replay", "recorded", type=click.Path(path_type=Path), metavar="WAREHOUSE",
    help="Play the search over the launches that a warehouse holds; nothing is measured.",
)  # fmt: skip
@click.option(
    "--check", metavar="COMMAND",
    help="Quality gate: it gets the folder of an arm's drops; another status than 0 puts the arm out.",
)  # fmt: skip
@click.option(
    "--any-outputs", is_flag=True,
    help="Take also arms that do not answer as the baseline at temperature 0, but for rounding.",
)  # fmt: skip
@click.option(
    "--on", type=click.Choice(PLACES),
    help="Where each launch runs, as for `draftboard run` [this machine].",
)  # fmt: skip
@click.option(
    "--cluster", type=click.Path(path_type=Path), metavar="FILE",
    help="YAML file with the options of the cluster.",
)  # fmt: skip
@click.option(
    "--parallel", type=click.IntRange(min=1), metavar="N",
    help="Launches side by side, chosen together [as many as the GPUs take that are free here; else 1].",
)  # fmt: skip
@click.option(
    "--warehouse", type=click.Path(path_type=Path),
    help="Warehouse whose dashboards show how the search stands [DRAFTBOARD_WAREHOUSE, else data/warehouse].",
)  # fmt: skip
@filter_options
@click.option(
    "--objective", type=click.Choice(["throughput", "latency", "cost"]), default="throughput",
    show_default=True, help="What the choice is for; on one machine cost is throughput.",
)  # fmt: skip
@click.option("--slo", help="Only arms that meet it, e.g. 'ttft:p95<200ms; itl:p99<10ms'.")
@click.option(
    "--mix", metavar="DATASET=SHARE,…",
    help="One choice for your traffic, e.g. code=0.7,prose=0.3 [each dataset on its own].",
)  # fmt: skip
@click.option(
    "--stake", default="2%", show_default=True, metavar="SIZE",
    help="A rival that is better by no more is not worth finding.",
)  # fmt: skip
@click.option(
    "--error", default="5%", show_default=True, metavar="CHANCE",
    help="How often a rival may be better by more than that.",
)  # fmt: skip
@click.option(
    "--budget", metavar="MINUTES|USD", help="Such as 120min or 30usd; it ends there at the latest."
)
@click.option(
    "--dry-run", is_flag=True,
    help="Measure nothing: what is known and what comes next; of a replay the order of the launches.",
)  # fmt: skip
@json_option
def search(plan: Path | None, results: Path | None, recorded: Path | None, **given: Any) -> None:
    """Find the best arm of each load with the fewest minutes: what is measured next follows from
    what is known, and it ends when no other arm can be better by more than the stake.

    The same command continues after any interruption.

    \b
    Example:
      draftboard search studies/laptop-lab-search.yaml --results results --stake 10%
      draftboard search --replay data/warehouse --study laptop-lab-costly --stake 10%
    """
    if (plan is None) == (recorded is None):
        raise click.UsageError("Give either a STUDY with --results, or --replay WAREHOUSE.")
    if plan is None:
        assert recorded is not None
        _only(given, _MEASURING, "only with a STUDY, since a replay measures nothing")
        _replay(recorded, given)
    elif results is None:
        raise click.UsageError("STUDY needs --results, the folder into which it measures.")
    else:
        _only(given, FILTER_FIELDS, "only with --replay, since a STUDY is searched whole")
        # A replay needs nothing of what measures.
        from answers.search import words
        from answers.search.board import board
        from answers.search.values import searches_json
        from commands.running import search_board
        from commands.running.search_study import SearchTask, laid_out, look, search_on

        task = SearchTask(
            plan, results, given["on"] or "local", given["cluster"], given["check"],
            given["any_outputs"], given["parallel"],
        )  # fmt: skip
        planned = laid_out(task)
        terms = _terms(given, planned.usd_per_min)
        if given["dry_run"]:
            now = look(task, planned, terms)
        else:
            telling = _telling(given["warehouse"])
            with ended_by_signals("stopped; the same command goes on from here"), telling:
                now = search_on(task, planned, terms, telling)
        if given["as_json"]:
            show_json(searches_json([now.told], now.orders))
        elif given["dry_run"]:
            search_board.show(board(now, datetime.now(UTC)), err=False)
        else:
            _show(now.told, False)
            proof = now.told.proof
            if proof is not None:
                show(
                    Table(*words.proof_rows(proof), "Promised by the search, proven by fresh launches"),
                    click.wrap_text(words.proof(proof), _WIDTH),
                    f"What to paste: --speculative-config {shlex.quote(proof.paste or '')}"
                    if (proof.recommended and proof.paste is not None) else None,
                )  # fmt: skip
            elif not now.orders:
                show(
                    f"What to paste: draftboard ingest {results} && draftboard tune "
                    f"--study {now.told.study}"
                )


def _only(given: Mapping[str, Any], names: Sequence[str], why: str) -> None:
    """Refuse options that would be without effect. Raises UsageError."""
    useless = [f"--{name.replace('_', '-')}" for name in names if given[name]]
    if useless:
        raise click.UsageError(f"{', '.join(useless)}: {why}.")


def _replay(warehouse: Path, given: Mapping[str, Any]) -> None:
    from answers.search.live import replay
    from answers.search.values import searches_json

    with reading(warehouse) as reader:
        found = replay(reader, filters_from(given), _terms(given), given["parallel"] or 1)
    if given["as_json"]:
        show_json(searches_json(found))
        return
    if not found:
        show("No study here has a baseline and arms that were measured at the same loads.")
    for played in found:
        _show(played, given["dry_run"])


def _telling(warehouse: Path | None) -> "search_board.Telling":
    """Return what tells of a search, also where a folder that somebody named is no warehouse yet."""
    from commands.running import search_board

    # What a URL names is not the folder itself.
    root = warehouse_path(warehouse)
    return search_board.Telling(root, named=root == named_warehouse(warehouse))


def _terms(given: Mapping[str, Any], usd_per_min: float | None = None) -> "SearchTerms":
    from analysis.service.slo import parse
    from answers.decide.values import mix_from
    from answers.search.values import SearchTerms

    budget = given["budget"]
    if given["slo"] is not None:
        parse(given["slo"])  # A slip is said before anything is measured.
    return SearchTerms(
        _share("--stake", given["stake"]), _share("--error", given["error"]),
        None if budget is None else _minutes(budget, usd_per_min), given["objective"] == "latency",
        given["slo"], mix_from(given["mix"]), (budget or "").endswith("usd"),
    )  # fmt: skip


def _share(option: str, text: str) -> float:
    """Read a share, ``3%`` as 0.03; it must lie above 0 and below 1."""
    share = share_from(option, text)
    if not share:
        raise InvalidInput(f"{option}: {text!r} is no size; write one like 3%.")
    if share < 0.01 and not text.strip().endswith("%"):
        raise InvalidInput(
            f"{option}: {text!r} may mean {100 * share:g} % or {10000 * share:g} %; write it with its %."
        )
    return share


def _minutes(text: str, usd_per_min: float | None) -> float:
    """Read ``120min``, ``2h`` or ``30usd`` as minutes; money needs the study's price."""
    number, factor = (text.removesuffix("h"), 60.0) if text.endswith("h") else (text, 1.0)
    if text.endswith("usd"):
        if not usd_per_min:
            raise InvalidInput(
                f"--budget: {text!r} needs the price of an hour, which only a study states; give it "
                "a price, or the budget in minutes."
            )
        number, factor = text.removesuffix("usd"), 1 / usd_per_min
    try:
        minutes = float(number.removesuffix("min")) * factor
    except ValueError:
        minutes = -1.0
    if not 0 < minutes < float("inf"):
        raise InvalidInput(f"--budget: {text!r} is no time; write one like 120min, 2h or 30usd.")
    return minutes


def _show(played: "SearchReport", dry_run: bool) -> None:
    from answers.search import words

    places = Table(*words.places(played.found), "By load")
    candidates = Table(*words.candidate_rows(played.candidates), "Candidates")
    left_out = f"Left out, since K is not fixed: {', '.join(played.left_out)}."
    show(
        click.style(words.title(played), bold=True),
        click.wrap_text(played.headline, _WIDTH),
        Table(*words.steps(played), "Launches, in the order in which they are chosen"),
        places if not dry_run and places.rows else None,
        None if dry_run else candidates,
        left_out if played.left_out else None,
        "",
    )
