"""An ingest in a process of its own that says when it begins, so that it can be killed at a chosen moment.

``python -m benchmarks.child FILE WAREHOUSE`` imports what it needs, prints ``ready``, and does the work.
"""

import sys


def main(place: str, warehouse: str) -> None:
    """Ingest, once all that it needs is imported."""
    import duckdb  # noqa: F401  # importing is not what is killed
    import pyarrow.parquet  # noqa: F401

    import ingest.pipeline  # noqa: F401
    from commands.keeping.ingest import ingest as command
    from ingest.processes import _Processes, start

    # When it has forked one, it has imported what reading needs.
    start()
    one = _Processes().Process(target=int)
    one.start()
    one.join()
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    command.main([place, "--warehouse", warehouse, "--json"], standalone_mode=False)


if __name__ == "__main__":
    main(*sys.argv[1:])
