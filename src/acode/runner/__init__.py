"""How a command is run: its environment, its process tree, its end."""
