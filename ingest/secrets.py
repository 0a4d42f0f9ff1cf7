"""The search for credentials as readers call it; it lies in ``warehouse/secrets``, where runners and nightly find it too."""

from warehouse.secrets.texts import scrub_text as scrub_text
from warehouse.secrets.values import scrub as scrub
