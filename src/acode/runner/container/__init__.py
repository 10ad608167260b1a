"""Commands in containers: the engine, its images, one warm container per worker, and its owner."""
