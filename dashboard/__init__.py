"""Arranges what analysis and the warehouse return; computes nothing."""

import sys
from pathlib import Path

# Streamlit puts the folder of the file that it runs first on the path: ``dashboard/answers`` would
# then be found where ``answers`` is meant. Imported once from its own place, it stays.
_HERE = str(Path(__file__).parent)
sys.path[:] = [place for place in sys.path if place != _HERE]

import answers as answers  # noqa: E402 - only now is it found
