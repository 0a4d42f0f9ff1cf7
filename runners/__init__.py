"""The GPU side: a study file becomes result drops."""
