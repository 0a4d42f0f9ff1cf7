"""The server of a launch: started when a cell needs it, replaced when it died, stopped at the end;
or somebody else's, which is asked who it is before every cell."""

from collections.abc import Sequence

from runners.measuring.guidellm import HANGS
from runners.measuring.progress import Progress
from runners.planning.plan import Launch, PlannedCell
from runners.planning.study_file import Study
from runners.serving import agreement, endpoint
from runners.serving.diagnosis import GPU_LOST, Diagnosis
from runners.serving.engines import glance, listen
from runners.serving.server import LocalServer, RemoteServer, ServerFailed, ServerSpec, start
from warehouse.errors import RunnerError

_KEY_HINT = "give its API key with --api-key-env VARIABLE or --api-key-file FILE"
#: Another start would find the same.
_LASTING = frozenset({
    "bad_argument", "bad_configuration", "executable_missing", GPU_LOST, "model_gated", "model_missing",
    "model_unsupported", "no_device", "too_few_gpus", "unknown_method", "vocabulary_mismatch",
})  # fmt: skip
#: What may be over when the other launches are done: somebody's memory, a network, a slow disk.
PASSING = frozenset({
    "crashed", "ended", "hub_unreachable", "killed", "memory_taken", "never_ready", "port_taken",
    "too_many_files", "unknown",
})  # fmt: skip


class LocalHost:
    """An engine on this machine. It gives up when one start after another fails."""

    def __init__(self, spec: ServerSpec, launch: Launch, study: Study, progress: Progress) -> None:
        #: Why there will be no server any more.
        self.given_up: Diagnosis | None = None
        self._spec, self._launch, self._study, self._progress = spec, launch, study, progress
        self._tries_left = study.limits.retries
        self._server: LocalServer | None = None
        self._start_s = 0.0
        self.resolved: agreement.Resolved | None = None

    def up(self) -> LocalServer:
        """Return the running server, or a new one. Raises ServerFailed."""
        if self.given_up is not None:
            raise ServerFailed(self.given_up, [])
        if self._server is not None and self._server.died() is not None:
            self.stop()
        if self._server is not None:
            return self._server
        self._progress.starting(self._launch)
        try:
            server = self._server = start(self._spec)
        except ServerFailed as error:
            if self._tries_left == 0 or error.diagnosis.cause in _LASTING:
                self.given_up = error.diagnosis
            self._tries_left -= 1
            raise
        self.resolved = agreement.ask_configuration(server.url)
        wrong = agreement.disagreement(self.resolved, self._study, self._launch)
        if wrong is not None:
            self.stop()
            self.given_up = wrong
            raise ServerFailed(wrong, server.log_tail())
        self._tries_left = self._study.limits.retries
        self._start_s += server.ready_after_s
        self._progress.ready(self._launch, server.ready_after_s)
        return server

    def start_s(self) -> float:
        """Return the seconds that starting took since this was last asked."""
        seconds, self._start_s = self._start_s, 0.0
        return seconds

    def notes(self) -> dict[str, object]:
        """Return the engine's own configuration where it tells, and what only the study says."""
        stated = agreement.precision_is_stated(self.resolved, self._study)
        config = {} if self.resolved is None else self.resolved.as_json()
        notes = {"resolved": config, "stated": ["precision"] if stated else []}
        return {name: value for name, value in notes.items() if value}

    def doubt(self, problem: Diagnosis) -> None:
        """Stop, after a failed cell, a server that hangs or does not answer."""
        if problem.cause in (agreement.OTHER_SERVER, GPU_LOST):
            self.given_up = problem
        if self._server is not None and (problem.cause == HANGS or not self._server.alive()):
            self.stop()

    def changed(self) -> Diagnosis | None:
        """Return None: a server of our own stays what it is until it dies."""

    def stop(self) -> None:
        """End the server and all that it started."""
        server, self._server = self._server, None
        if server is not None:
            server.stop()


class RemoteHost:
    """A server that somebody else runs, which fits its arm: it can be asked, not started."""

    def __init__(self, server: RemoteServer, facts: agreement.ServerFacts, study: Study) -> None:
        self.given_up: Diagnosis | None = None
        #: What it said when it was first asked.
        self.facts, self.resolved = facts, facts.resolved
        self._server, self._study = server, study

    def up(self) -> RemoteServer:
        """Return the server as it is; ServerFailed where it is gone, or another one than before."""
        self.given_up = self.given_up or self.changed()
        if self.given_up is not None:
            raise ServerFailed(self.given_up, [])
        return self._server

    def start_s(self) -> float:
        """Return 0: nothing is started."""
        return 0.0

    def notes(self) -> dict[str, object]:
        """Return for the record's environment what the server says, and what only the study
        says."""
        return {
            "server": "run by somebody else",
            "stated": agreement.stated_only(self.facts, self._study),
            "resolved": {} if self.resolved is None else self.resolved.as_json(),
        }

    def doubt(self, problem: Diagnosis) -> None:
        """Give up on a server that is gone, or another one: nobody here can bring it back."""
        if problem.cause == agreement.OTHER_SERVER:
            self.given_up = problem
        elif not self._server.alive():
            self.given_up = Diagnosis("server_gone", f"{self._server.url} answers no more.")

    def changed(self) -> Diagnosis | None:
        """Ask the server who it is now, and say why it is another one than before; None where
        nothing shows."""
        before, now = self.facts, glance(self._server.url)
        for name in ("engine", "version", "models", "drafts", "draft_tokens"):
            then, later = getattr(before, name), getattr(now, name)
            if then is not None and later is not None and then != later:
                return Diagnosis(
                    agreement.OTHER_SERVER,
                    f"The server at {self._server.url} is no longer the one that this run began with: "
                    f"it was {_in_words(before)}, and now it is {_in_words(now)}.",
                )
        return None

    def stop(self) -> None:
        """Do nothing: somebody else's server stays as it is."""


Host = LocalHost | RemoteHost


def meet(url: str, study: Study, launch: Launch) -> RemoteHost:
    """Ask a server who it is. Raises RunnerError where it is not the study's, or does not answer."""
    server, refused = RemoteServer(url, agreement.served_model(study), study.request.format), None
    try:
        endpoint.ask(url, server.model, server.request_format, 60.0)
    except endpoint.RequestRefused as error:
        refused = str(error)  # Said below: what the server is may explain it.
    except endpoint.BadStatus as error:
        denials = {
            401: f"asks for an API key, or refuses this one; {_KEY_HINT}",
            403: f"does not let this API key in; {_KEY_HINT}",
        }
        why = (
            denials.get(error.status)
            or f"answers a request with status {error.status}; see its log"
        )
        raise RunnerError(f"The server at {url} {why}.") from None
    except endpoint.SILENT as error:
        reason = getattr(error, "reason", None) or error
        raise RunnerError(
            f"Nothing answers at {url} ({reason}); check the address and whether it is up."
        ) from None
    facts = listen(url)
    wrong = agreement.contradictions(facts, study, launch)
    if wrong:
        raise RunnerError(
            f"The server at {url} is not the arm {launch.variant.name} of the study: "
            f"{'; '.join(wrong)}. Drive the right server, name the arm that it is (--only arm=…), "
            "or correct the study."
        )
    if refused is not None:
        raise RunnerError(f"The server at {url} refuses a request for {server.model}: {refused}")
    return RemoteHost(server, facts, study)


def _in_words(facts: agreement.ServerFacts) -> str:
    models = ", ".join(card.name for card in facts.models or ()) or "of no named model"
    drafting = {True: "drafting", False: "not drafting", None: "silent on drafts"}[facts.drafts]
    engine, version = facts.engine or "an engine", facts.version or "of unknown version"
    return f"{engine} {version}, {models}, {drafting}"


def require_single_arm(cells: Sequence[PlannedCell]) -> None:
    """Raise RunnerError where the cells want more than the one server that there is."""
    arms = sorted({f"{cell.arm} on {cell.tensor_parallel_size} GPUs" for cell in cells})
    if len(arms) > 1:
        raise RunnerError(
            f"The server at --target-url is one arm, and the study has {', '.join(arms)}; say which "
            "it is: --only arm=… (and tp=…)."
        )
