"""Where an attempt works: a git worktree, a scratch directory, or the project itself."""
