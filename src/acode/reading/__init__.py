"""Text to values that know their place, and the problems found on the way."""
