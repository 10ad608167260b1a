"""The pool inside a Python program: the daemon's dispatcher, with workers of its own kind."""
