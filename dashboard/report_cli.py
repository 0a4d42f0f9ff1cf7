"""``draftboard report``: the dashboard's view as one HTML file for stakeholders."""

import logging
from pathlib import Path
from typing import Any

import click

from commands.options import filter_options, question_from, question_options, warehouse_option
from commands.output import working
from warehouse.errors import InvalidInput

#: Streamlit tells whoever uses its cache outside a page that there is no page.
_CHATTY = "streamlit.runtime"


@click.command()
@warehouse_option
@filter_options
@question_options
@click.option("--out", required=True, type=click.Path(path_type=Path), help="The file to write.")
@click.option("--subject", help="Model, hardware and engine, named as on the Verdict page.")
@click.option("--tokens-per-day", type=float, help="A demand in output tokens: GPUs, cost a year.")
@click.option("--price", metavar="NAME", help="A price of `draftboard cost --list-prices`.")
@click.option("--usd-per-hour", type=float, help="Your price: USD per hour of an instance.")
@click.option("--gpus-per-instance", type=int, help="GPUs that this price buys [1].")
@click.option("--link", default="", help="Where the same view can be opened.")
def report(warehouse: Path | None, out: Path, **given: Any) -> None:
    """Write one self-contained HTML file: verdict, charts, tables, cost, method, provenance.

    Example: draftboard report --model openai/gpt-oss-120b --tokens-per-day 50e6 --out report.html
    """
    logging.getLogger(_CHATTY).setLevel(logging.ERROR)
    from analysis.money.paying import Paying
    from answers.report import ReportRequest
    from answers.report import report as collected
    from dashboard.downloads import html, library
    from warehouse.storage.cache import warehouse_path
    from warehouse.storage.files import private_beside, publish
    from warehouse.store import Reader

    library()
    paying = Paying(given["usd_per_hour"], given["gpus_per_instance"], price=given["price"])
    wanted = ReportRequest(
        question_from(given), given["subject"], paying, given["tokens_per_day"], given["link"]
    )
    with Reader(warehouse_path(warehouse)) as reader, working("writing the report"):
        text = html(collected(reader, wanted))
    try:
        # A report that was cut off is none: the file is there whole, or as it was.
        with private_beside(out) as place:
            (place / out.name).write_text(text, encoding="utf-8")
            publish(place / out.name, out)
    except OSError as error:
        raise InvalidInput(
            f"The report cannot be written to {out} ({error.strerror}); name another --out."
        ) from error
    click.echo(f"Wrote {out} ({len(text.encode()) / 1e6:.1f} MB).")
