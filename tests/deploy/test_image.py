"""The image's steps, without Docker: the wheel in an environment of its own, nobody's user, read-only root."""

import json
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import sysconfig
import tempfile
import time
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from email import message_from_string
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest

from tests.deploy.files import ROOT, compose, dockerfile_json, text

PATIENCE_S = 120.0
#: As the image's: not root, nothing but reading allowed (this machine's Python lies in root's home).
_NOBODY = (
    "setpriv --reuid 10001 --regid 10001 --clear-groups --no-new-privs "
    "--inh-caps=-all,+dac_read_search --ambient-caps=-all,+dac_read_search "
    "--bounding-set=-all,+dac_read_search"
)

pytestmark = pytest.mark.slow


@dataclass
class Image:
    """Where things lie that in the image lie under /opt, /app, /data and /tmp."""

    folder: Path
    started: list[subprocess.Popen[str]] = field(default_factory=list)

    @property
    def bin(self) -> Path:
        return self.folder / "opt" / "bin"

    def path(self, name: str) -> Path:
        found = self.folder / name
        found.mkdir(parents=True, exist_ok=True)
        return found

    def contained(self, *words: str, writable: tuple[str, ...] = ("warehouse",)) -> list[str]:
        """The command in namespaces of its own: all is read-only but /tmp and what is named."""
        places = [str(self.path(name)) for name in ("tmp", *writable)]
        mounts = " && ".join(f"mount --bind {shlex.quote(p)} {shlex.quote(p)}" for p in places)
        script = f"mount --make-rprivate / && {mounts} && mount -o remount,bind,ro / && exec "
        return ["unshare", "--mount", "sh", "-c", script + f"{_NOBODY} {shlex.join(words)}"]

    def environment(self, **more: str) -> dict[str, str]:
        tmp = str(self.path("tmp"))
        return {
            "PATH": f"{self.bin}:{os.environ['PATH']}",
            "HOME": tmp, "TMPDIR": tmp, "PYTHONDONTWRITEBYTECODE": "1", "PYTHONUNBUFFERED": "1",
            "DRAFTBOARD_WAREHOUSE": str(self.path("warehouse")), **more,
        }  # fmt: skip

    def start(self, *words: str, **more: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            self.contained(*words), env=self.environment(**more), cwd=self.path("app"),
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip
        self.started.append(process)
        return process

    def run(self, *words: str, **more: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.contained(*words), env=self.environment(**more), cwd=self.path("app"),
            capture_output=True, text=True, check=False, timeout=PATIENCE_S,
        )  # fmt: skip


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from what .dockerignore lets into an image."""
    folder = tmp_path_factory.mktemp("context")
    for line in text(".dockerignore").splitlines():
        if line.startswith("!"):
            _copied(ROOT / line[1:], folder / "src" / line[1:])
    subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation",
         "--wheel-dir", str(folder / "wheels"), str(folder / "src")],
        check=True,
    )  # fmt: skip
    (found,) = (folder / "wheels").iterdir()
    return found


def _copied(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir():
        shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
    else:
        shutil.copy(source, target)


@pytest.fixture(scope="module")
def image(wheel: Path) -> Iterator[Image]:
    """An environment with the wheel; third-party packages are those of this environment."""
    if subprocess.run(["unshare", "--mount", "true"], check=False).returncode != 0:
        pytest.skip("no mount namespaces here: unshare is missing or not allowed")
    image = Image(Path(tempfile.mkdtemp(prefix="image-")))
    image.folder.chmod(0o755)
    opt = image.folder / "opt"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(opt)], check=True)
    pip = [sys.executable, "-m", "pip", "--python", str(image.bin / "python"), "install"]
    subprocess.run([*pip, "--quiet", "--no-deps", "--no-index", str(wheel)], check=True)
    (packages,) = opt.glob("lib/python3*/site-packages")
    (packages / "others.pth").write_text(sysconfig.get_path("purelib") + "\n")
    _copied(ROOT / ".streamlit/config.toml", image.path("app") / ".streamlit/config.toml")
    for name in ("tmp", "warehouse"):
        os.chown(image.path(name), 10001, 10001)
    yield image
    for process in image.started:
        process.kill()
        process.communicate()
    shutil.rmtree(image.folder)


@pytest.fixture
def contained(image: Image) -> Iterator[Image]:
    """The image; what a test starts ends with it."""
    yield image
    for process in image.started:
        process.kill()
        process.communicate()
    image.started.clear()


def until(ready: Callable[[], bool], process: subprocess.Popen[str]) -> None:
    end = time.monotonic() + PATIENCE_S
    while not ready():
        assert process.poll() is None, process.communicate()[0]
        assert time.monotonic() < end
        time.sleep(0.2)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as held:
        port: int = held.getsockname()[1]
        return port


def test_the_wheel_holds_every_package_and_needs_neither_torch_nor_vllm(wheel: Path) -> None:
    with ZipFile(wheel) as archive:
        names = archive.namelist()
        (metadata,) = (name for name in names if name.endswith(".dist-info/METADATA"))
        needs = message_from_string(archive.read(metadata).decode()).get_all("Requires-Dist", [])
    configured = tomllib.loads(text("pyproject.toml"))["tool"]["hatch"]["build"]["targets"]
    assert {name.split("/")[0] for name in names} >= set(configured["wheel"]["only-include"])
    always = {re.split(r"[<>=!~\[; ]", need)[0] for need in needs if "extra ==" not in need}
    assert "streamlit" in always
    assert not always & {"torch", "vllm", "guidellm", "ray"}


def test_it_is_the_wheel_that_runs_and_not_this_folder(contained: Image) -> None:
    code = "import warehouse, dashboard; print(warehouse.__file__, dashboard.__file__)"
    said = contained.run("python", "-c", code).stdout
    assert said.count(str(contained.folder)) == 2


def test_nothing_but_the_volumes_can_be_written(contained: Image) -> None:
    code = f"open({str(contained.path('app') / 'x')!r}, 'w')"
    assert "Read-only file system" in contained.run("python", "-c", code).stderr
    inside = f"open({str(contained.path('warehouse') / 'x')!r}, 'w'); import os; print(os.getuid())"
    assert contained.run("python", "-c", inside).stdout == "10001\n"


def test_the_dashboard_refuses_to_be_open_to_anybody(contained: Image) -> None:
    (command,) = (words for words in dockerfile_json("CMD") if words[0] == "dashboard")
    done = contained.run("draftboard", *command)
    assert done.returncode == 1
    assert "login" in done.stderr


def test_the_watcher_takes_results_in_and_the_dashboard_shows_them(
    contained: Image, report: Callable[..., dict[str, Any]]
) -> None:
    drop = contained.path("results/c8-r0")
    (drop / "guidellm.json").write_text(json.dumps(report()))
    (drop / "record.json").write_text('{"schema_version": 1, "model": "in-the-image"}')
    watcher = compose()["services"]["watcher"]
    results = str(contained.path("results"))
    command = [word.replace("/data/results", results) for word in watcher["command"]]
    asks = [word.replace("/data/results", results) for word in watcher["healthcheck"]["test"][1:]]

    process = contained.start("draftboard", *command, "--interval", "0.2")
    until(lambda: (contained.path("warehouse") / "watch.json").exists(), process)
    until(lambda: '"accepted": 1' in contained.run(*asks, "--json").stdout, process)
    assert contained.run(*asks).returncode == 0
    process.terminate()
    assert process.wait(timeout=PATIENCE_S) == 0
    assert contained.run(*asks).returncode == 1

    _shows_the_model(contained)


def _shows_the_model(contained: Image) -> None:
    """The page itself, run as Streamlit runs it; the server's health says nothing of it."""
    code = (
        "from pathlib import Path; import dashboard; from streamlit.testing.v1 import AppTest;"
        "app = Path(dashboard.__path__[0]) / 'frame.py';"
        "at = AppTest.from_file(str(app), default_timeout=100).run();"
        "print('ERRORS', [e.value for e in at.exception]);"
        "print([text.value for text in (*at.main.markdown, *at.sidebar.markdown, *at.sidebar.caption)])"
    )
    said = contained.run("python", "-c", code, DRAFTBOARD_OPEN_TO_EVERYONE="viewer")
    assert "ERRORS []" in said.stdout, said.stderr
    assert "in-the-image" in said.stdout


def test_the_dashboard_runs_and_answers_the_health_check_and_ends_when_told(
    contained: Image,
) -> None:
    port = str(free_port())
    (command,) = (words for words in dockerfile_json("CMD") if words[0] == "dashboard")
    (asks,) = (words for words in dockerfile_json("CMD") if words[0] == "python")
    asks = [word.replace("8501", port) for word in asks]
    assert contained.run(*asks).returncode != 0

    process = contained.start(
        "draftboard", *command, "--port", port, DRAFTBOARD_OPEN_TO_EVERYONE="viewer"
    )
    until(lambda: contained.run(*asks).returncode == 0, process)

    process.terminate()
    process.wait(timeout=PATIENCE_S)
    assert contained.run(*asks).returncode != 0
