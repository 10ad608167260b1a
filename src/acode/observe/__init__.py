"""What happened, for whoever wants to know: events and logs. Nothing here changes a task."""
