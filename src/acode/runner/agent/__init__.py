"""Coding agents: what they print while they work, and what it means for the attempt."""
