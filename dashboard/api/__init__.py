"""The HTTP API: ``/api/v1/…``, in the process of the dashboard, behind the same gate."""
