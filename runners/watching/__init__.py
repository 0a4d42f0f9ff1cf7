"""The machine during a load: GPUs, processor, other launches, second by second."""
