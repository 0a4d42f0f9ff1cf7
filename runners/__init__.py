"""The GPU side: a study file becomes result drops. Empty until the issue "Runners" is built."""
