"""Addresses of the server that several parts know by name."""

import streamlit as st
from starlette.types import Scope

HEALTH, LOGIN = "/healthz", "/login"
#: Where Streamlit takes files; the session and the file follow.
UPLOADS = "/_stcore/upload_file/"
API, METRICS, LLMS, AGENTS = "/api/", "/metrics", "/llms.txt", "/mcp"


def base() -> str:
    """Return the beginning that all addresses of this server share, from ``server.baseUrlPath``;
    mostly empty."""
    base = str(st.get_option("server.baseUrlPath") or "").strip("/")
    return f"/{base}" if base else ""


def is_for_programs(scope: Scope) -> bool:
    """Whether programs ask this address: they may send a token, and are told problems."""
    path = path_of(scope)
    return path.startswith(API) or path in (METRICS, LLMS, AGENTS)


def path_of(scope: Scope) -> str:
    """Return the path that was asked for, without the beginning that all addresses of this server
    share."""
    path = str(scope["path"])
    return path.removeprefix(base()) or "/"
