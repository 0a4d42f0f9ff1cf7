"""``draftboard live``: does the decision still hold for what a server in production does now?"""

import re
import time
from collections.abc import Sequence
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from commands.terminal import (
    Table,
    ended_by_signals,
    errors_end_with_2,
    filter_options,
    json_option,
    progress,
    question_from,
    question_options,
    reading,
    show,
    show_json,
    warehouse_option,
)
from warehouse.errors import DraftboardError, InvalidInput
from warehouse.storage.cache import warehouse_path

if TYPE_CHECKING:
    from analysis.drafts.watched import ServerLook
    from answers.decide.values import DecideQuestion
    from answers.live.values import LiveAnswer

_WIDTH = 80
#: A server is looked at so often, and at least every few seconds.
_LOOKS, _PAUSE_S = 60, 5.0
#: A server that answers its metrics slowly is busy, not gone.
_PATIENCE_S = 10.0
_SPAN = re.compile(r"(\d+(?:\.\d+)?)\s*(s|m|h|d)?")
_SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_MODEL, _ENGINE = re.compile(r'\bmodel_name="([^"]{1,200})"'), re.compile(r'\bengine="(\d+)"')


def _span(_: click.Context, option: click.Parameter, given: str | None) -> float | None:
    if given is None:
        return None
    found = _SPAN.fullmatch(given.strip())
    if found is None or not float(found[1]):
        raise click.BadParameter(f"{given!r} is no time; write 60s, 10m or 1h.", param=option)
    return float(found[1]) * _SECONDS[found[2] or "s"]


@click.command()
@click.argument("urls", metavar="URL…", nargs=-1, required=True)
@click.option("--for", "seconds", default="60s", show_default=True, callback=_span, metavar="TIME",
              help="How long to watch: 60s, 10m, 1h.")  # fmt: skip
@click.option(
    "--every", callback=_span, metavar="TIME", help="Look again and again, e.g. 1h, until stopped."
)
@click.option("--record", "to_record", is_flag=True, help="Keep what was found, for Trends.")
@click.option("--api-key-env", metavar="VARIABLE", help="Variable that holds the servers' API key.")
@warehouse_option
@filter_options
@question_options
@json_option
def live(
    urls: tuple[str, ...], seconds: float, every: float | None, to_record: bool,
    warehouse: Path | None, as_json: bool, **given: Any,
) -> None:  # fmt: skip
    """Does the decision still hold for the servers at these addresses, replicas of one?

    It reads their /metrics (vLLM's) and sends no prompt: drafts accepted and requests in flight now,
    against what `draftboard verdict` with the same options was decided on. --load: the load that it was
    decided for; --arm: the arm that runs, where several draft as many tokens. Exit status: 0 holds, 1 no
    longer holds, 2 cannot say, wrong usage or an error.

    Example: draftboard live http://server-1:8000 http://server-2:8000 --dataset code --for 5m
    """
    from answers.live.values import EXIT
    from runners.serving.endpoint import read_key, use_key

    with errors_end_with_2():
        question, root = question_from(given), warehouse_path(warehouse)
    # An address given twice is one replica.
    places = [
        *dict.fromkeys(url.rstrip("/").removesuffix("/metrics").removesuffix("/v1") for url in urls)
    ]
    with ended_by_signals("stopped"):
        while True:
            began = time.monotonic()
            try:
                for url in places:
                    if (key := read_key(given["api_key_env"], None)) is not None:
                        use_key(url, key)
                answer = _answered(root, question, places, seconds)
                status = EXIT[answer.standing]
                _show(answer, as_json)
                if to_record:
                    _record(root, answer)
            except DraftboardError as error:
                # Exit status 1 says that the decision no longer holds, so an error must not end with it.
                show(f"draftboard: {error}", err=True)
                status = 2
            if every is None:
                raise SystemExit(status)
            time.sleep(max(0.0, began + every - time.monotonic()))


def _answered(
    root: Path, question: "DecideQuestion", urls: Sequence[str], seconds: float
) -> "LiveAnswer":
    from analysis.drafts.watched import watched
    from answers.live.answer import live as held
    from answers.live.values import LiveQuestion

    with reading(root) as reader:
        replicas, models = _watch(urls, seconds)
        counted = (looks[-1].counters for looks in replicas)
        if len({None if one is None else len(one.by_position) for one in counted}) > 1:
            raise InvalidInput(
                "These servers do not all draft as many tokens, so they are no replicas of one; look at those "
                "that do, by themselves."
            )
        if len(models) > 1 and not question.filters.model:
            raise InvalidInput(
                f"These servers serve {' and '.join(models)}, so they are no replicas of one; look at each by "
                "itself, or where it is one model say with --model what the warehouse calls it."
            )
        return held(reader, LiveQuestion(question, models, watched(replicas)))


def _watch(urls: Sequence[str], seconds: float) -> "tuple[list[list[ServerLook]], tuple[str, ...]]":
    """Look at every server until the time is over, so often on a busy machine too, however long that takes. A
    look that fails once a server has answered is left out: it may be starting again."""
    looks: list[list[ServerLook]] = [[] for _ in urls]
    models: set[str] = set()
    pause, began = min(_PAUSE_S, seconds / _LOOKS), time.monotonic()
    with progress("watching", round(seconds), as_bytes=False) as told:
        for number in range(ceil(seconds / pause) + 1):
            early = began + number * pause - time.monotonic()
            if early > 0:
                time.sleep(early)
                told(round(min(pause, early)))
            for url, own in zip(urls, looks, strict=True):
                try:
                    look, names = _look(url)
                except InvalidInput:
                    if not own:
                        raise
                else:
                    own.append(look)
                    models |= names
    for url, own in zip(urls, looks, strict=True):
        if len(own) < 2:
            raise InvalidInput(
                f"{_shown(url)} answered once and not again; look again when it is up."
            )
    return looks, tuple(sorted(models))


def _look(url: str) -> "tuple[ServerLook, set[str]]":
    """Ask a server once. Raises InvalidInput, a sentence for each way in which it says nothing of use."""
    from analysis.drafts.watched import ServerLook
    from ingest.counters import parse_exposition
    from runners.serving.endpoint import SILENT, BadStatus, fetch
    from warehouse.contract import engine_in

    where = _shown(url)
    try:
        text = fetch(f"{url}/metrics", _PATIENCE_S)
    except BadStatus as error:
        raise InvalidInput(
            f"{where} asks for a login (status {error.status}); name the variable that holds its key: "
            "--api-key-env VARIABLE."
            if error.denied
            else f"{where} has no /metrics (status {error.status}); give the address of the engine itself."
        ) from None
    except (*SILENT, ValueError) as error:
        raise InvalidInput(
            f"{where} cannot be reached ({getattr(error, 'reason', error)}); is it up?"
        ) from None
    engine = engine_in(text)
    found = parse_exposition(text.splitlines())
    # A router in front of engines has names of vLLM's as well, and counts no token.
    if engine != "vllm" or "generation_tokens" not in found.values:
        what = f"those of {engine}" if engine not in (None, "vllm") else "no metrics of an engine"
        raise InvalidInput(
            f"What {where} shows at /metrics is {what}; draftboard live reads vLLM's, which counts drafts."
        )
    # Releases before 0.9 count drafted tokens, and no drafts.
    if found.broken or (found.counters is None and "spec_decode_num_draft_tokens" in found.values):
        raise InvalidInput(f"A counter of drafts at {where} has no number; look at its /metrics.")
    names = "generation_tokens", "num_preemptions", "num_requests_running", "num_requests_waiting"
    generated, preempted, *requests = (found.values.get(name, 0.0) for name in names)
    # A server of several engines (data parallelism) shares its requests out to them.
    each = (count / max(len(set(_ENGINE.findall(text))), 1) for count in requests)
    look = ServerLook(time.time(), found.counters, generated, preempted, *each)
    return look, set(_MODEL.findall(text))


def _shown(url: str) -> str:
    """Return an address without a name and password in it."""
    return re.sub(r"//[^/@]*@", "//", url)


def _show(answer: "LiveAnswer", as_json: bool) -> None:
    from answers.live.values import about, figures, live_json

    if as_json:
        show_json(live_json(answer))
        return
    show(
        click.style(about(answer), bold=True),
        click.wrap_text(answer.sentence, _WIDTH),
        Table(*figures(answer)),
        None if answer.config is None else f"--speculative-config '{answer.config}'",
    )


def _record(root: Path, answer: "LiveAnswer") -> None:
    from answers.live.values import recorded
    from warehouse.annotations import STANDINGS_FILE, append_lines

    if answer.acceptance is None:
        show("Nothing is recorded: no drafts were held against what was measured.", err=True)
    else:
        append_lines(root, STANDINGS_FILE, recorded(answer))
