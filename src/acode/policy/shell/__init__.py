"""Shell text, read as a shell reads it, without running anything."""
