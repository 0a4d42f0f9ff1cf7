"""What runs a study: look at what it will take, at the machine, run it, follow its jobs, gather its results."""
