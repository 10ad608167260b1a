"""`acode worker …`: the pool that runs the tasks."""

from acode.cli.parser import Command, lazily

COMMANDS = (
    Command(
        "logs",
        "print what workers and their commands said, as one stream",
        lazily("acode.cli.logs", "worker_logs"),
        (
            "acode worker logs                               of all workers, by time",
            "acode worker logs worker-01J9X --follow",
            "acode worker logs --task 01J9X --level warning --since 1h",
            "acode worker logs --format json | jq -r .message",
            "acode worker logs --since 2d --export pool.log",
        ),
        lazily("acode.cli.logs", "worker_logs_arguments"),
    ),
    Command(
        "attach",
        "print what a worker's command prints from now on; Ctrl-C only detaches",
        lazily("acode.cli.logs", "attach"),
        ("acode worker attach worker-01J9X",),
        lazily("acode.cli.logs", "attach_arguments"),
    ),
)
