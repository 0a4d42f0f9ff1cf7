"""One command for any timer: run what is due, ingest, gate, notify, report.

A *night* is a fresh set of measurements of a study. It has a folder of its own under
``<results>/nights``, so that ``draftboard run`` goes on with an unfinished one and measures a new one
from nothing. Each stage is a process of its own; what is done stands in the night's state file, and
the next call goes on from there.
"""
