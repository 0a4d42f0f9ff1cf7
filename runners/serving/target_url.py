"""A server that somebody else runs: only load and counters, and what it says of itself."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from runners.measuring.guidellm import served_model
from runners.planning.plan import Launch, PlannedCell
from runners.planning.study import Study
from runners.serving import agreement, endpoint
from runners.serving.agreement import Said
from runners.serving.diagnosis import Diagnosis
from runners.serving.endpoint import SILENT, BadStatus, Refused
from runners.serving.engines import glance, listen
from runners.serving.server import Remote
from warehouse.errors import RunnerError

_FIRST_ANSWER_S = 60.0
_KEY_HINT = "give its API key with --api-key-env VARIABLE or --api-key-file FILE"


@dataclass(frozen=True)
class Foreign:
    """A foreign server that fits its arm, as it was when it was first asked."""

    server: Remote
    said: Said
    study: Study
    launch: Launch

    def changed(self) -> Diagnosis | None:
        """Say why it is no longer the server that it was; None where nothing shows."""
        now = glance(self.server.url)
        pairs = zip(_identity(self.said), _identity(now), strict=True)
        if any(None not in (then, later) and then != later for then, later in pairs):
            return Diagnosis(
                agreement.OTHER_SERVER,
                f"The server at {self.server.url} is no longer the one that this run began with: it "
                f"was {_in_words(self.said)}, and now it is {_in_words(now)}.",
            )
        return None

    def facts(self) -> dict[str, Any]:
        """Return what a record says of the server: engine, version, prefix caching."""
        said = self.said
        known = {
            "engine": said.engine,
            "engine_version": said.version,
            "prefix_caching": said.prefix_caching,
        }
        return {name: value for name, value in known.items() if value is not None}

    def notes(self) -> dict[str, Any]:
        """Return for the record's environment what the server says, and what only the study
        says."""
        config = {} if self.said.resolved is None else self.said.resolved.as_json()
        return {
            "server": "run by somebody else",
            "stated": agreement.stated_only(self.said, self.study),
            "resolved": config,
        }


def meet(url: str, study: Study, launch: Launch) -> Foreign:
    """Ask a server who it is. Raises RunnerError where it is not the study's, or does not answer."""
    server = Remote(url, served_model(study), study.request.format)
    refused = _refusal(server)
    said = listen(url)
    wrong = agreement.contradictions(said, study, launch)
    if wrong:
        raise RunnerError(
            f"The server at {url} is not the arm {launch.variant.name} of the study: "
            f"{'; '.join(wrong)}. Drive the right server, name the arm that it is (--only arm=…), "
            "or correct the study."
        )
    if refused is not None:
        raise RunnerError(f"The server at {url} refuses a request for {server.model}: {refused}")
    return Foreign(server, said, study, launch)


def _refusal(server: Remote) -> str | None:
    """Return what the server finds wrong with a real request. RunnerError: nobody answers, or
    nobody is let in."""
    try:
        endpoint.ask(server.url, server.model, server.request_format, _FIRST_ANSWER_S)
    except Refused as error:
        return str(error)
    except BadStatus as error:
        raise RunnerError(_denied(server, error)) from None
    except SILENT as error:
        why = getattr(error, "reason", None) or error
        raise RunnerError(
            f"Nothing answers at {server.url} ({why}); check the address and whether it is up."
        ) from None
    return None


def _denied(server: Remote, error: BadStatus) -> str:
    if error.status == 401:
        return f"The server at {server.url} asks for an API key, or refuses this one; {_KEY_HINT}."
    if error.status == 403:
        return f"The server at {server.url} does not let this API key in; {_KEY_HINT}."
    return f"The server at {server.url} answers a request with status {error.status}; see its log."


def _identity(said: Said) -> tuple[Any, ...]:
    """Return what must not change while a launch is measured."""
    return said.engine, said.version, said.models, said.drafts, said.draft_tokens


def _in_words(said: Said) -> str:
    models = ", ".join(card.name for card in said.models or ()) or "of no named model"
    drafting = {True: "drafting", False: "not drafting", None: "silent on drafts"}[said.drafts]
    return (
        f"{said.engine or 'an engine'} {said.version or 'of unknown version'}, {models}, {drafting}"
    )


def require_one_arm(cells: Sequence[PlannedCell]) -> None:
    """Raise RunnerError where the cells want more than the one server that there is."""
    arms = sorted({f"{cell.arm} on {cell.tensor_parallel_size} GPUs" for cell in cells})
    if len(arms) > 1:
        raise RunnerError(
            f"The server at --target-url is one arm, and the study has {', '.join(arms)}; say which "
            "it is: --only arm=… (and tp=…)."
        )
