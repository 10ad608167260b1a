"""Pure decisions: values in, a value out. Time and chance are parameters."""
