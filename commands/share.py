"""What is passed on: ``report`` and ``share`` (one HTML file, a bundle), ``publish`` and ``verify`` (a signed set)."""

import logging
from pathlib import Path
from typing import Any

import click

from commands.terminal import (
    filter_options,
    filters_from,
    question_from,
    question_options,
    reading,
    show,
    warehouse_option,
    whole_warehouse_option,
    working,
)
from warehouse.errors import InvalidInput
from warehouse.storage.cache import warehouse_path

_FILE = click.Path(path_type=Path, dir_okay=False)


@click.command()
@warehouse_option
@filter_options
@click.option(
    "--out",
    required=True,
    type=click.Path(path_type=Path),
    help="FILE.html for the report, else the FOLDER of a bundle.",
)
@click.option(
    "--with-texts",
    is_flag=True,
    help="Bundle: also the texts of prompts, outputs and errors, where they were kept.",
)
@click.pass_context
def share(
    ctx: click.Context, /, warehouse: Path | None, out: Path, with_texts: bool, **given: Any
) -> None:
    """Write results to pass on: a report (FILE.html), or a read-only bundle (FOLDER).

    A bundle is a small warehouse with what the filters keep, its notes and exclusions, and without
    the texts of prompts, outputs and errors. With Draftboard installed, anybody opens it with:
    draftboard dashboard --warehouse FOLDER

    Example: draftboard share bundle --study nightly --out for-the-board
    """
    if out.suffix.lower() in (".html", ".htm"):
        if with_texts:
            raise InvalidInput(
                "--with-texts is for a bundle: a report never holds prompts or outputs."
            )
        ctx.invoke(report, warehouse=warehouse, out=out, **given)
        return
    from warehouse.storage.copies import bundle

    made = bundle(warehouse_path(warehouse), out, filters_from(given), with_texts)
    show(
        f"Wrote {out}: {made.cells:,} cells of {made.sources:,} sources, {made.requests:,} requests "
        f"{'with' if with_texts else 'without'} their texts, {made.annotations:,} notes and "
        "exclusions.",
        f"Open it with: draftboard dashboard --warehouse {out}",
    )


@click.command()
@whole_warehouse_option
@filter_options
@click.option("--out", required=True, type=click.Path(path_type=Path), help="A new folder.")
@click.option("--title", required=True, help="What the set is called.")
@click.option("--licence", required=True, metavar="SPDX", help="Its licence, e.g. CC-BY-4.0.")
@click.option("--by", required=True, help="Who measured it: a person or an organisation.")
@click.option(
    "--key", required=True, type=_FILE,
    help="Key to sign with: openssl genpkey -algorithm ed25519 -out FILE",
)  # fmt: skip
def publish(warehouse: Path | None, out: Path, key: Path, **given: Any) -> None:
    """Write results for everybody into a folder: Parquet, dataset card, Croissant metadata, claims, a
    page that reads them in a browser without a server, and a signature over all of it.

    Texts of prompts and outputs, notes and names of colleagues stay at home.

    Example: draftboard publish --out set --title "EAGLE-3 on H200" --licence CC-BY-4.0 --by "Example Lab" --key key.pem
    """
    from commands.publishing.attestation import private_key
    from commands.publishing.write import PublishedSet, write

    secret = private_key(key)
    about = PublishedSet(filters_from(given), given["title"], given["licence"], given["by"])
    cells, files, signed_by = write(warehouse_path(warehouse), out, about, secret)
    show(
        f"Wrote {out}: {cells:,} cells, {files:,} files, signed by {signed_by}.",
        f"Anybody checks it with: draftboard verify {out}",
    )


@click.command()
@click.argument("address", metavar="FOLDER|URL")
@click.option(
    "--key", type=_FILE, help="The publisher's public key, from elsewhere than the set itself."
)
def verify(address: str, key: Path | None) -> None:
    """Check a published set: its signature, every hash, every number from its requests, every claim.

    Exit status: 0 all of it holds, 1 something does not.

    Example: draftboard verify https://example.com/set --key publisher.pub
    """
    from commands.publishing.fetch import check, fetched

    with fetched(address) as folder:
        wrong, held = check(folder, key)
    show(*wrong, err=True)
    if wrong:
        raise InvalidInput(f"{address} does not hold: {len(wrong):,} findings.")
    show(*held)


# --- ``draftboard report``: the dashboard's view as one HTML file for stakeholders.


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
    from warehouse.storage import files

    library()
    paying = Paying(given["usd_per_hour"], given["gpus_per_instance"], price=given["price"])
    wanted = ReportRequest(
        question_from(given), given["subject"], paying, given["tokens_per_day"], given["link"]
    )
    with reading(warehouse) as reader, working("writing the report"):
        text = html(collected(reader, wanted))
    try:
        # A report that was cut off is none: the file is there whole, or as it was.
        with files.private_beside(out) as private:
            (private / out.name).write_text(text, encoding="utf-8")
            files.publish(private / out.name, out)
    except OSError as error:
        raise InvalidInput(
            f"The report cannot be written to {out} ({error.strerror}); name another --out."
        ) from error
    click.echo(f"Wrote {out} ({len(text.encode()) / 1e6:.1f} MB).")
