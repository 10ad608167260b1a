"""`acode worker …`: the pool that runs the tasks."""

from acode.cli.parser import Command, lazily

COMMANDS = (
    Command(
        "start",
        "start the worker pool in the background",
        lazily("acode.cli.start", "start"),
        (
            "acode worker start",
            "acode worker start --count 8",
            "acode worker start --autoscale",
            "acode worker start --foreground    for systemd and other service managers",
        ),
        lazily("acode.cli.start", "start_arguments"),
    ),
    Command(
        "status",
        "show the pool at a glance",
        lazily("acode.cli.pool", "status"),
        ("acode worker status", "acode worker status --watch", "acode worker status --json"),
        lazily("acode.cli.pool", "status_arguments"),
    ),
    Command(
        "list",
        "list the workers",
        lazily("acode.cli.pool", "list_workers"),
        ("acode worker list", "acode worker list --json | jq '.[].pid'"),
    ),
    Command(
        "scale",
        "change the number of workers; idle ones go first, busy ones finish",
        lazily("acode.cli.pool", "scale"),
        ("acode worker scale 6",),
        lazily("acode.cli.pool", "scale_arguments"),
    ),
    Command(
        "stop",
        "let running tasks finish, then stop the pool",
        lazily("acode.cli.stop", "stop"),
        (
            "acode worker stop",
            "acode worker stop --force    end what runs; it goes back to the queue",
        ),
        lazily("acode.cli.stop", "stop_arguments"),
    ),
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
