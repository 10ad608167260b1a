"""The durable truth: one contract, several engines."""
