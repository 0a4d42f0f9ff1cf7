"""What is passed on: ``share`` (a report or a bundle), ``publish`` and ``verify`` (a signed set)."""

from pathlib import Path
from typing import Any

import click

from commands.options import (
    filter_options,
    filters_from,
    warehouse_option,
    whole_warehouse_option,
)
from commands.output import show
from warehouse.errors import InvalidInput

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
        from draftboard import command_named

        ctx.invoke(command_named("share report"), warehouse=warehouse, out=out, **given)
        return
    from warehouse.storage.cache import warehouse_path
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
    from warehouse.storage.cache import warehouse_path

    secret = private_key(key)
    about = PublishedSet(filters_from(given), given["title"], given["licence"], given["by"])
    cells, files, signed_by = write(warehouse_path(warehouse), out, about, secret)
    show(
        f"Wrote {out}: {cells:,} cells, {files:,} files, signed by {signed_by}.",
        f"Anybody checks it with: draftboard verify {out}",
    )


@click.command()
@click.argument("place", metavar="FOLDER|URL")
@click.option(
    "--key", type=_FILE, help="The publisher's public key, from elsewhere than the set itself."
)
def verify(place: str, key: Path | None) -> None:
    """Check a published set: its signature, every hash, every number from its requests, every claim.

    Exit status: 0 all of it holds, 1 something does not.

    Example: draftboard verify https://example.com/set --key publisher.pub
    """
    from commands.publishing.fetch import check, fetched

    with fetched(place) as folder:
        wrong, held = check(folder, key)
    show(*wrong, err=True)
    if wrong:
        raise InvalidInput(f"{place} does not hold: {len(wrong):,} findings.")
    show(*held)
