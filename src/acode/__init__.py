"""acode: a durable worker pool for coding agents, shell commands, scripts and Python functions."""

__version__ = "0.1.0"
