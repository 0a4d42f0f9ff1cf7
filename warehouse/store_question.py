"""A question in SQL that anybody may ask: read-only, in a process of its own that can be ended.

The process has no way to files, the network or its settings, little memory and a short life; what
it sees are the views of ``sql/views.sql``. ``ask`` starts it; ``python -m warehouse.store_question``
is it.
"""

import json
import os
import subprocess
import sys
import threading
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

import duckdb
import pyarrow as pa

from warehouse.errors import InvalidInput
from warehouse.store_files import TABLES
from warehouse.store_list import current_name, no_current
from warehouse.store_old import require_our_schema
from warehouse.store_read import Opened, leave_out, open_newest
from warehouse.store_remote import stay
from warehouse.store_tables import quoted, sql_text

#: The views that a question may name.
VIEWS: tuple[str, ...] = (
    "cells", "measurements", "acceptance", "acceptance_by_position", "flags", "samples",
    "rejections", "excluded_runs",
)  # fmt: skip
_REFUSED = 3
#: A busy machine may take so long to start the process; its own clock begins behind that.
_START_S = 30.0
#: The database's own limit, and the one of the whole process beyond what it has at the start: what
#: an answer holds on its way out is nobody's table. Together 512 MB.
_MEMORY, _MEMORY_BYTES = "384MB", 512 << 20
_ADDRESS_SPACE = 4 << 30
_ANSWER_BYTES = 32 << 20


@dataclass(frozen=True)
class Bounds:
    """How long a question may take, in seconds, and how many rows come back."""

    seconds: float = 10.0
    rows: int = 10_000


@dataclass(frozen=True)
class Answer:
    """The rows, and whether there were more than the bounds let through."""

    rows: pa.Table
    cut: bool


def ask(root: Path, sql: str, bounds: Bounds | None = None) -> Answer:
    """Return the answer to one ``select`` on the newest generation.

    Raises InvalidInput, in one sentence, for anything else: several statements, a write, a file, a
    setting, a mistake, too long, too large. Raises WarehouseMissing where there is no warehouse.
    """
    bounds = bounds or Bounds()
    name = current_name(root)
    if name is None:
        raise no_current(root)
    require_our_schema(Path(root), name)
    question = json.dumps({"root": str(Path(root).resolve()), "sql": sql} | asdict(bounds)).encode()
    return _read(_answered(question, bounds), bounds)


def _answered(question: bytes, bounds: Bounds) -> bytes:
    # An empty environment: what is not there cannot be read out.
    with subprocess.Popen(
        [sys.executable, "-m", "warehouse.store_question"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        cwd=Path(__file__).parents[1], env={"PATH": os.defpath},
    ) as process:  # fmt: skip
        try:
            said, wrong = process.communicate(question, timeout=bounds.seconds + _START_S)
        except subprocess.TimeoutExpired:
            process.kill()
            raise _too_long(bounds) from None
    if process.returncode == _REFUSED:
        raise InvalidInput(wrong.decode(errors="replace").strip())
    if process.returncode < 0:  # Ended by a signal: by one of the limits, or by the system.
        raise _too_large()
    if process.returncode:
        raise RuntimeError(f"the process that answers questions broke: {wrong.decode()[-2000:]}")
    return said


def _read(said: bytes, bounds: Bounds) -> Answer:
    rows = pa.ipc.open_stream(said).read_all()
    kept = rows.slice(0, bounds.rows)
    columns = [_holdable(column) for column in kept.columns]
    return Answer(
        pa.table(columns, names=kept.column_names) if columns else kept, rows.num_rows > bounds.rows
    )


def _holdable(column: pa.ChunkedArray) -> pa.ChunkedArray | pa.Array:
    """Return the column; as text where Python or a file has no word for it, such as a day before all
    years, or an interval of months."""
    kind = column.type
    if not (pa.types.is_temporal(kind) or pa.types.is_nested(kind)):
        return column
    with suppress(OverflowError, ValueError):
        column.to_pylist()
        if not (pa.types.is_interval(kind) or pa.types.is_union(kind) or kind == pa.struct([])):
            return column
    return pa.array(map(_text, column), pa.string())


def _text(one: pa.Scalar) -> str | None:
    with suppress(OverflowError, ValueError):
        value = one.as_py()
        return None if value is None else str(value)
    with suppress(pa.ArrowException):
        return str(one.cast(pa.string()).as_py())
    return "<value out of range>"


def _too_long(bounds: Bounds) -> InvalidInput:
    return InvalidInput(
        f"This question took longer than {bounds.seconds:g} s and was stopped; "
        "add a where clause or a limit."
    )


def _too_large() -> InvalidInput:
    return InvalidInput(
        "This question needs more memory than a question may use; select fewer rows or columns."
    )


def _main() -> None:
    """Answer one question: it is read from stdin, Arrow goes to stdout or one sentence to
    stderr."""
    question = json.loads(sys.stdin.buffer.read())
    _confine(question["seconds"])
    code = 0
    try:
        sys.stdout.buffer.write(_answer(question))
        sys.stdout.buffer.flush()
    except InvalidInput as error:
        sys.stderr.write(str(error))
        sys.stderr.flush()
        code = _REFUSED
    # At an ordinary exit duckdb's bindings would list what they leaked behind the sentence.
    os._exit(code)


def _confine(seconds: float) -> None:
    """Set limits that hold whatever the database engine may be talked into."""
    import resource

    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_AS, (_ADDRESS_SPACE, _ADDRESS_SPACE))
    # Memory that is written to; the address space holds much that never is.
    data = _data_bytes() + _MEMORY_BYTES
    resource.setrlimit(resource.RLIMIT_DATA, (data, data))
    cpu = int(seconds) + 1
    # Some systems set a lower hard limit already, which stays.
    with suppress(ValueError):
        resource.setrlimit(resource.RLIMIT_CPU, (cpu, cpu))


def _data_bytes() -> int:
    """Return the memory for data that this process has by now; 0 on a system that does not say."""
    with suppress(OSError):
        for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
            if line.startswith("VmData:"):
                return int(line.split()[1]) << 10
    return 0


def _answer(question: dict[str, str | float]) -> bytes:
    # The asker has followed the store; this process has no way there.
    stay(Path(str(question["root"])))
    opened = _confined(str(question["root"]))
    connection = opened.connection
    bounds = Bounds(float(question["seconds"]), int(question["rows"]))
    timer = threading.Timer(bounds.seconds, connection.interrupt)
    timer.daemon = True
    timer.start()
    try:
        statements = connection.extract_statements(str(question["sql"]))
        if len(statements) != 1 or statements[0].type != duckdb.StatementType.SELECT:
            raise InvalidInput("Ask with one select statement; nothing else is run here.")
        return _arrow(connection.sql(statements[0]), bounds.rows)
    except duckdb.InterruptException:
        raise _too_long(bounds) from None
    except (MemoryError, duckdb.OutOfMemoryException):
        raise _too_large() from None
    # What breaks while rows flow out comes through Arrow, as text.
    except (duckdb.Error, RuntimeError, ValueError, OSError) as error:
        raise _refused(str(error), bounds) from None


def _refused(said: str, bounds: Bounds) -> InvalidInput:
    first = said.strip().splitlines()[0].rstrip(".")
    if "INTERRUPT" in first:
        return _too_long(bounds)
    if "Out of Memory" in first or "bad_alloc" in first:
        return _too_large()
    return InvalidInput(f"The database does not answer this: {first}.")


def _confined(root: str) -> Opened:
    opened = documented(Path(root))
    files = [quoted(Path(root) / TABLES / one.file) for one in opened.generation.files()]
    for setting in (
        "set threads = 1",
        f"set memory_limit = '{_MEMORY}'",
        "set temp_directory = ''",
        f"set allowed_paths = [{', '.join(files)}]",
        "set enable_external_access = false",
        "set lock_configuration = true",
    ):
        opened.connection.execute(setting)
    return opened


def documented(root: Path) -> Opened:
    """Open the newest generation, with the documented views (``VIEWS``) over it."""
    opened = open_newest(root)
    leave_out(opened.connection, root)
    opened.connection.execute(sql_text("views"))
    return opened


def _arrow(found: duckdb.DuckDBPyRelation, rows: int) -> bytes:
    """Write the answer as Arrow: at most one row more than asked for, so that the asker knows
    whether there are more."""
    reader: pa.RecordBatchReader = found.to_arrow_reader(min(rows + 1, 2048))
    sink = pa.BufferOutputStream()
    left = rows + 1
    with pa.ipc.new_stream(sink, reader.schema) as writer:
        for batch in reader:
            writer.write_batch(batch.slice(0, left))
            left -= batch.num_rows
            if sink.tell() > _ANSWER_BYTES:
                raise InvalidInput("The answer is larger than 32 MB; select fewer columns or rows.")
            if left <= 0:
                break
    return bytes(sink.getvalue())


if __name__ == "__main__":
    _main()
