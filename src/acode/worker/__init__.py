"""A small single-threaded process that runs one attempt at a time and outlives the daemon."""
