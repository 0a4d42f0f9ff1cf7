"""Makes recorded nights: ``python -m examples.make_nights EXAMPLE NIGHT… --first 2026-11-10``.

Each NIGHT is a study's results folder of one night. Nights that were measured in one sitting get an
evening of their own: every moment of a night is moved by whole days, to the n-th evening from
``--first`` on, and its records say so (``provenance``). Else ``make_from_results`` changes what it
always changes.
"""

import json
import re
from datetime import date, datetime, timedelta
from pathlib import Path

import click
import zstandard

from examples.make_from_results import good_cells, packed, write_drop
from runners.surroundings.layout import AFTER, BEFORE, RECORD, REPORT, SAMPLES

#: Seconds since 1970 that lie between 2017 and 2033: nothing else in a report is as large.
_EPOCH = (1.5e9, 2e9)
_CREATED = re.compile(r"(_created\{[^}]*\} )(\S+)")


def moved(value: object, by: timedelta) -> object:
    """A value of JSON, every moment in it moved."""
    if isinstance(value, dict):
        return {name: moved(one, by) for name, one in value.items()}
    if isinstance(value, list):
        return [moved(one, by) for one in value]
    if isinstance(value, float) and _EPOCH[0] < value < _EPOCH[1]:
        return value + by.total_seconds()
    return value


def unpacked(file: Path) -> str:
    """The text of a packed file."""
    return zstandard.ZstdDecompressor().decompressobj().decompress(file.read_bytes()).decode()


def move_record(file: Path, by: timedelta) -> None:
    """Move a record's start and end, and let it say that they were moved."""
    record = json.loads(file.read_bytes())
    measured = record["started_at"][:10]
    for name in ("started_at", "ended_at"):
        at = datetime.fromisoformat(record[name])
        record[name] = (at + by).isoformat().replace("+00:00", "Z")
    record["provenance"] = (
        f"Measured on {measured}, all nights in one sitting; the dates are set, an evening a night."
    )
    file.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")


def move_drop(folder: Path, by: timedelta) -> None:
    """Move every moment in a drop."""
    move_record(folder / RECORD, by)
    report = folder / f"{REPORT}.zst"
    report.write_bytes(packed(json.dumps(moved(json.loads(unpacked(report)), by)).encode()))
    samples = folder / f"{SAMPLES}.zst"
    lines = [json.dumps(moved(json.loads(one), by)) for one in unpacked(samples).splitlines()]
    samples.write_bytes(packed("\n".join(lines).encode()))
    for name in (BEFORE, AFTER):
        file = folder / f"{name}.zst"
        later = _CREATED.sub(
            lambda found: f"{found[1]}{float(found[2]) + by.total_seconds()}", unpacked(file)
        )
        file.write_bytes(packed(later.encode()))


def write_night(night: Path, example: Path, evening: date) -> int:
    """Write the good cells of one night below ``example``, as if measured that evening; how many."""
    cells = list(good_cells(night))
    for cell in cells:
        folder = example / evening.isoformat() / cell.relative_to(night)
        write_drop(cell, folder)
        began = datetime.fromisoformat(json.loads((cell / RECORD).read_bytes())["started_at"])
        move_drop(folder, evening - (began - timedelta(hours=12)).date())
    return len(cells)


@click.command()
@click.argument("example", type=click.Path(file_okay=False, path_type=Path))
@click.argument(
    "nights", nargs=-1, required=True,
    type=click.Path(exists=True, file_okay=False, path_type=Path),
)  # fmt: skip
@click.option("--first", required=True, type=click.DateTime(["%Y-%m-%d"]), help="First evening.")
def make(example: Path, nights: tuple[Path, ...], first: datetime) -> None:
    """Write NIGHTS, a results folder of the study each, as drops of successive evenings."""
    for number, night in enumerate(nights):
        evening = (first + timedelta(days=number)).date()
        click.echo(f"{evening}: {write_night(night, example, evening)} cells of {night}")


if __name__ == "__main__":
    make()
