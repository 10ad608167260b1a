"""The gateway: HTTP, events, metrics and the dashboard, in a process of its own."""
