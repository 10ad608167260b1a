"""The engine: reads wishes from the store, runs tasks, writes facts."""
