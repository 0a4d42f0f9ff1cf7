"""What a credential looks like and how it is taken out; runners, ingest and nightly share it."""
