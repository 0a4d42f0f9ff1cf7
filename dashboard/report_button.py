"""The button that makes a report of the view; the file is made when it is clicked."""

import streamlit as st

from answers.decide.values import DecideQuestion
from answers.report.answer import report
from answers.report.words import Wanted
from dashboard import links
from dashboard.report import html
from dashboard.shelf import Shelf


def report_button(shelf: Shelf, question: DecideQuestion, subject: str) -> None:
    """Offer the report on a subject, named as its overview."""
    wanted = Wanted(question, subject, link=links.address())
    st.download_button(
        "Report",
        lambda: html(report(shelf.reader, wanted)),
        file_name="draftboard-report.html",
        mime="text/html",
        key="report",
        on_click="ignore",
        icon=":material/download:",
    )
