"""An engine's Python asks the kernel for Intel's AMX tiles when it starts; the kernel answers on Intel only."""

import ctypes
import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.runners.conftest import ROOT, lab_executable

LINE = ROOT / "runners" / "lab" / "amx.pth"
#: arch_prctl of x86-64 and what it is asked, from Linux's asm/prctl.h; the tiles' data is bit 18.
ARCH_PRCTL, SUPPORTED, PERMITTED, REQUEST, TILES = 158, 0x1021, 0x1022, 0x1023, 18
ON_LINUX_X86_64 = (sys.platform, platform.machine()) == ("linux", "x86_64")
READ = f"""
import ctypes
mask = ctypes.c_uint64()
ctypes.CDLL(None).syscall({ARCH_PRCTL}, {{}}, ctypes.byref(mask))
print(mask.value >> {TILES} & 1)
"""
# In place of the C library stands one that writes down what it is asked and refuses, as a kernel
# without AMX does; then the environment's own start-up files run, and the program after them.
WATCHED = """
import ctypes, site
class Refuses:
    def __init__(self, name): pass
    def syscall(self, *words): print("asked", *words); return -1
ctypes.CDLL = Refuses
site.main()
print("the program")
"""

pytestmark = pytest.mark.skipif(not ON_LINUX_X86_64, reason="AMX is asked for on x86-64 Linux")


def kernel_offers_tiles() -> bool:
    """Whether processor and kernel have AMX."""
    mask = ctypes.c_uint64()
    ctypes.CDLL(None).syscall(ARCH_PRCTL, SUPPORTED, ctypes.byref(mask))
    return bool(mask.value >> TILES & 1)


def run(python: Path, *words: str) -> str:
    """What a program prints; nothing may stand on stderr, where broken start-up files complain."""
    done = subprocess.run([python, *words], capture_output=True, text=True, check=True)
    assert done.stderr == ""
    return done.stdout


@pytest.fixture
def python_of_engine() -> Path:
    """The Python of the lab's vLLM."""
    return lab_executable("python", "vllm")


@pytest.mark.slow
def test_the_engines_python_asks_for_the_tiles_before_a_program_runs_and_bears_a_refusal(
    python_of_engine: Path,
) -> None:
    *asked, last = run(python_of_engine, "-S", "-c", WATCHED).splitlines()

    # Python 3.11 runs the start-up files of a virtual environment twice.
    assert set(asked) == {f"asked {ARCH_PRCTL} {REQUEST} {TILES}"}
    assert last == "the program"


@pytest.mark.slow
@pytest.mark.skipif(not kernel_offers_tiles(), reason="this processor or kernel has no AMX")
def test_the_kernel_has_granted_the_tiles_to_the_engines_python(python_of_engine: Path) -> None:
    assert run(python_of_engine, "-c", READ.format(PERMITTED)) == "1\n"


@pytest.mark.slow
@pytest.mark.skipif(kernel_offers_tiles(), reason="this processor and kernel have AMX")
def test_without_amx_the_engines_python_starts_as_ever_and_is_granted_nothing(
    python_of_engine: Path,
) -> None:
    assert run(python_of_engine, "-c", READ.format(PERMITTED)) == "0\n"


@pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="the set-up wants Python 3.11")
def test_an_environment_that_stood_before_is_given_the_line_and_is_not_made_again(
    tmp_path: Path,
) -> None:
    shutil.copytree(ROOT / "runners" / "lab", tmp_path / "runners" / "lab")
    environment = tmp_path / ".lab" / "vllm"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", environment], check=True)
    recipe = subprocess.run(
        "cksum <runners/lab/constraints-vllm.txt", shell=True, cwd=tmp_path, capture_output=True
    )
    (environment / ".made").write_bytes(recipe.stdout)

    for _ in range(2):
        done = subprocess.run(
            [tmp_path / "runners" / "lab" / "setup.sh", "vllm"],
            capture_output=True, text=True, env={**os.environ, "LAB_PYTHON": sys.executable},
        )  # fmt: skip
        assert (done.stdout, done.stderr) == ("lab: vllm stands\n", "")

    assert [p.read_text() for p in environment.rglob("*.pth")] == [LINE.read_text()]
