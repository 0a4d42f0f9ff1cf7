"""The family of an arm that a search measures: what its launches share but K, as one text.

It is the value of ``--speculative-config`` without K, as JSON. Where the server of an arm is started with
other arguments than the baseline's, these stand there too, since such an arm is another one.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

_SERVER = "server arguments"
#: What vLLM and others take a draft for whose method nobody names.
_USUAL = "draft_model"


def family_of(config: Mapping[str, Any], server: Sequence[str], usual: Sequence[str]) -> str:
    """Return the family of a config without K. ``server``: the command line without the config;
    ``usual``: the baseline's."""
    other = {} if list(server) == list(usual) else {_SERVER: list(server)}
    return json.dumps({**config, **other}, sort_keys=True)


def config_of(family: str) -> str:
    """Return the config without K of a family, as JSON."""
    return json.dumps({k: v for k, v in json.loads(family).items() if k != _SERVER}, sort_keys=True)


def method_of(family: str) -> str:
    """Return the method of a family."""
    return str(json.loads(family).get("method", _USUAL))
