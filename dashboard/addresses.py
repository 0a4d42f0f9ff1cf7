"""Addresses of the server that several parts know by name."""

import streamlit as st
from starlette.types import Scope

HEALTH, LOGIN = "/healthz", "/login"
#: Where Streamlit takes files; the session and the file follow.
UPLOADS = "/_stcore/upload_file/"


def base() -> str:
    """``server.baseUrlPath`` as it begins an address; mostly empty."""
    base = str(st.get_option("server.baseUrlPath") or "").strip("/")
    return f"/{base}" if base else ""


def path_of(scope: Scope) -> str:
    """The path that was asked for, without what every address of this server begins with."""
    path = str(scope["path"])
    return path.removeprefix(base()) or "/"
