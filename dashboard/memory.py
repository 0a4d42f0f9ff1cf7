"""What the server keeps of memory that it no longer needs: next to nothing.

Allocators keep what was freed for the next large question. A dashboard is asked one now and then, by
one of its sessions, and stands beside engines and watchers for weeks. Measured, three readers at once on every page
twice, on the smaller warehouse of the benchmarks: 338 MB with all of this, 386 without ``mallopt``, 350
without DuckDB's setting (``warehouse/__init__.py``), 407 without any; 224 are imports.
"""

import contextlib
import ctypes
import gc
from functools import cache

import pyarrow as pa

#: <malloc.h> of the GNU C library: from which size on memory is mapped and given back at once, and
#: how many heaps the threads share.
_M_MMAP_THRESHOLD, _M_ARENA_MAX = -3, -8
_MAPPED_BYTES, _ARENAS = 128 << 10, 2


@cache
def give_back() -> None:
    """Let the allocators of this process give back what is freed; once, before anything large."""
    pa.set_memory_pool(pa.system_memory_pool())
    # Another C library, or another system, knows none of these and does as it likes.
    with contextlib.suppress(OSError, AttributeError):
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_M_MMAP_THRESHOLD, _MAPPED_BYTES)
        mallopt(_M_ARENA_MAX, _ARENAS)


def keep_imports() -> None:
    """Spare each look for garbage a walk through what was imported.

    Python looks by itself, when enough was made since. The setting ``runner.postScriptGC`` keeps Streamlit
    from looking through everything after each run of a page besides: with fifty readers of 30,000
    cells that took six sevenths of the processor.
    """
    gc.collect()
    gc.freeze()
