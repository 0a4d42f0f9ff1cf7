"""A question in SQL that anybody may ask: read-only, in a process of its own that can be ended.

The process has no way to files, the network or its settings, little memory and a short life; what
it sees are the views of ``sql/views.sql``. ``ask`` starts it; ``python -m warehouse.storage.question``
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
from warehouse.storage.current import require_current, stay
from warehouse.storage.files import TABLES
from warehouse.storage.tables import quoted, require_our_schema, sql_text
from warehouse.store import Opened, leave_out, open_newest

#: The views that a question may name.
VIEWS: tuple[str, ...] = (
    "cells", "measurements", "acceptance", "acceptance_by_position", "flags", "samples",
    "rejections", "excluded_runs",
)  # fmt: skip
_REFUSED = 3
#: The database's own limit, and the one of the whole process beyond what it has at the start: what
#: an answer holds on its way out is nobody's table. Together 512 MB.
_MEMORY, _MEMORY_BYTES = "384MB", 512 << 20
_ADDRESS_SPACE = 4 << 30
_TOO_LARGE = (
    "This question needs more memory than a question may use; select fewer rows or columns."
)


@dataclass(frozen=True)
class Bounds:
    """How long a question may take, in seconds, and how many rows come back."""

    seconds: float = 10.0
    rows: int = 10_000

    @property
    def too_long(self) -> InvalidInput:
        """The error to raise where a question takes longer."""
        return InvalidInput(
            f"This question took longer than {self.seconds:g} s and was stopped; "
            "add a where clause or a limit."
        )


@dataclass(frozen=True)
class QuestionAnswer:
    """The rows, and whether there were more than the bounds let through."""

    rows: pa.Table
    cut: bool


def ask(root: Path, sql: str, bounds: Bounds | None = None) -> QuestionAnswer:
    """Return the answer to one ``select`` on the newest generation.

    Raises InvalidInput, in one sentence, for anything else: several statements, a write, a file, a
    setting, a mistake, too long, too large. Raises WarehouseMissing where there is no warehouse.
    """
    bounds = bounds or Bounds()
    require_our_schema(Path(root), require_current(root))
    question = json.dumps({"root": str(Path(root).resolve()), "sql": sql} | asdict(bounds)).encode()
    # An empty environment: what is not there cannot be read out.
    with subprocess.Popen(
        [sys.executable, "-m", "warehouse.storage.question"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        cwd=Path(__file__).parents[2], env={"PATH": os.defpath},
    ) as process:  # fmt: skip
        try:
            # A busy machine may take 30 s to start the process; its own clock begins behind that.
            said, wrong = process.communicate(question, timeout=bounds.seconds + 30)
        except subprocess.TimeoutExpired:
            process.kill()
            raise bounds.too_long from None
    if process.returncode == _REFUSED:
        raise InvalidInput(wrong.decode(errors="replace").strip())
    if process.returncode < 0:  # Ended by a signal: by one of the limits, or by the system.
        raise InvalidInput(_TOO_LARGE)
    if process.returncode:
        raise RuntimeError(f"the process that answers questions broke: {wrong.decode()[-2000:]}")
    rows = pa.ipc.open_stream(said).read_all()
    kept = rows.slice(0, bounds.rows)
    if kept.columns:
        kept = pa.table(list(map(_holdable, kept.columns)), names=kept.column_names)
    return QuestionAnswer(kept, rows.num_rows > bounds.rows)


def _holdable(column: pa.ChunkedArray) -> pa.ChunkedArray | pa.Array:
    """Return the column; as text where Python or a file has no word for it, such as a day before all
    years, or an interval of months.
    """
    kind = column.type
    if not (pa.types.is_temporal(kind) or pa.types.is_nested(kind)):
        return column
    with suppress(OverflowError, ValueError):
        column.to_pylist()
        if not (pa.types.is_interval(kind) or pa.types.is_union(kind) or kind == pa.struct([])):
            return column
    return pa.array(map(_text, column), pa.string())


def _text(scalar: pa.Scalar) -> str | None:
    with suppress(OverflowError, ValueError):
        value = scalar.as_py()
        return None if value is None else str(value)
    with suppress(pa.ArrowException):
        return str(scalar.cast(pa.string()).as_py())
    return "<value out of range>"


def documented(root: Path) -> Opened:
    """Open the newest generation, with the documented views (``VIEWS``) over it."""
    opened = open_newest(root)
    leave_out(opened.connection, root)
    opened.connection.execute(sql_text("views"))
    return opened


# --- The process that answers.


def _main() -> None:
    """Answer one question: it is read from stdin, Arrow goes to stdout or one sentence to stderr."""
    question = json.loads(sys.stdin.buffer.read())
    bounds = Bounds(float(question["seconds"]), int(question["rows"]))
    _limit(bounds.seconds)
    code = 0
    try:
        sys.stdout.buffer.write(_answer(Path(question["root"]), str(question["sql"]), bounds))
        sys.stdout.buffer.flush()
    except InvalidInput as error:
        sys.stderr.write(str(error))
        sys.stderr.flush()
        code = _REFUSED
    # At an ordinary exit duckdb's bindings would list what they leaked behind the sentence.
    os._exit(code)


def _limit(seconds: float) -> None:
    """Set limits that hold whatever the database engine may be talked into."""
    import resource

    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_AS, (_ADDRESS_SPACE, _ADDRESS_SPACE))
    # Memory that is written to, beyond what there is by now; the address space holds much that never is. A
    # system that does not say has 0.
    data = _MEMORY_BYTES
    with suppress(OSError):
        for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
            if line.startswith("VmData:"):
                data += int(line.split()[1]) << 10
    resource.setrlimit(resource.RLIMIT_DATA, (data, data))
    cpu = int(seconds) + 1
    # Some systems set a lower hard limit already, which stays.
    with suppress(ValueError):
        resource.setrlimit(resource.RLIMIT_CPU, (cpu, cpu))


def _answer(root: Path, sql: str, bounds: Bounds) -> bytes:
    # The asker has followed the store; this process has no way there.
    stay(root)
    opened = documented(root)
    connection = opened.connection
    files = [quoted(root / TABLES / file.file) for file in opened.generation.files()]
    for setting in (
        "set threads = 1",
        f"set memory_limit = '{_MEMORY}'",
        "set temp_directory = ''",
        f"set allowed_paths = [{', '.join(files)}]",
        "set enable_external_access = false",
        "set lock_configuration = true",
    ):
        connection.execute(setting)
    timer = threading.Timer(bounds.seconds, connection.interrupt)
    timer.daemon = True
    timer.start()
    try:
        statements = connection.extract_statements(sql)
        if len(statements) != 1 or statements[0].type != duckdb.StatementType.SELECT:
            raise InvalidInput("Ask with one select statement; nothing else is run here.")
        return _arrow(connection.sql(statements[0]), bounds.rows)
    except duckdb.InterruptException:
        raise bounds.too_long from None
    except (MemoryError, duckdb.OutOfMemoryException):
        raise InvalidInput(_TOO_LARGE) from None
    # What breaks while rows flow out comes through Arrow, as text.
    except (duckdb.Error, RuntimeError, ValueError, OSError) as error:
        first = str(error).strip().splitlines()[0].rstrip(".")
        if "INTERRUPT" in first:
            raise bounds.too_long from None
        if "Out of Memory" in first or "bad_alloc" in first:
            raise InvalidInput(_TOO_LARGE) from None
        raise InvalidInput(f"The database does not answer this: {first}.") from None


def _arrow(relation: duckdb.DuckDBPyRelation, rows: int) -> bytes:
    """Write the answer as Arrow: at most one row more than asked for, so that the asker knows
    whether there are more.
    """
    reader: pa.RecordBatchReader = relation.to_arrow_reader(min(rows + 1, 2048))
    sink = pa.BufferOutputStream()
    left = rows + 1
    with pa.ipc.new_stream(sink, reader.schema) as writer:
        for batch in reader:
            writer.write_batch(batch.slice(0, left))
            left -= batch.num_rows
            if sink.tell() > 32 << 20:
                raise InvalidInput("The answer is larger than 32 MB; select fewer columns or rows.")
            if left <= 0:
                break
    return bytes(sink.getvalue())


if __name__ == "__main__":
    _main()
