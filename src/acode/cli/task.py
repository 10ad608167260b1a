"""`acode task …`: everything that users do with tasks."""

from acode.cli.parser import Command, add_id, lazily

COMMANDS = (
    Command(
        "add",
        "queue a command, or the tasks of a file",
        lazily("acode.cli.add", "add"),
        (
            "acode task add -- 'make test && make docs'      a line for /bin/sh",
            "acode task add --title Build -- make -j4 all    a program and its arguments",
            "acode task add --priority high --after 01J9X --timeout 600 -- ./deploy",
            "acode task add --type claude-code -- 'Explain the retry policy'",
            "acode task add --type python -- tools.report:monthly 11 '{\"draft\": true}'",
            "acode task add nightly.yml                      a batch from a file",
            "generate | acode task add -                     a batch from a pipe",
        ),
        lazily("acode.cli.add", "add_arguments"),
    ),
    Command(
        "list",
        "list tasks, the oldest first",
        lazily("acode.cli.listing", "list_tasks"),
        (
            "acode task list --status pending --status running",
            "acode task list --reverse --limit 10     the newest",
            "acode task list --workstream docs --watch",
            "acode task list --json | jq '.[].id'",
        ),
        lazily("acode.cli.listing", "list_arguments"),
    ),
    Command(
        "show",
        "show everything about one task",
        lazily("acode.cli.show", "show"),
        ("acode task show 01J9X", "acode task show 01J9X --json"),
        add_id,
    ),
    Command(
        "wait",
        "wait until tasks are finished; exit 0 if all completed",
        lazily("acode.cli.wait", "wait"),
        ("acode task wait $(acode task add -- make test)", "acode task wait 01J9X --timeout 60"),
        lazily("acode.cli.wait", "wait_arguments"),
    ),
    Command(
        "logs",
        "print what a task printed",
        lazily("acode.cli.logs", "task_logs"),
        (
            "acode task logs 01J9X --follow                  until it is finished",
            "acode task logs 01J9X --attempt 2 | less",
            "acode task logs 01J9X --format json --since 10m",
        ),
        lazily("acode.cli.logs", "task_logs_arguments"),
    ),
    Command(
        "diff",
        "print what a task changed, as a patch",
        lazily("acode.cli.changes", "diff"),
        ("acode task diff 01J9X", "acode task diff 01J9X | git apply --stat"),
        add_id,
    ),
    Command(
        "restore",
        "bring work back that was saved when an attempt did not succeed, as a branch",
        lazily("acode.cli.changes", "restore"),
        ("acode task restore 01J9X",),
        add_id,
    ),
    Command(
        "cancel",
        "cancel tasks, or ask running ones to end",
        lazily("acode.cli.wish", "cancel"),
        ("acode task cancel 01J9X 01J9Y", "acode task cancel 01J9X --force"),
        lazily("acode.cli.wish", "cancel_arguments"),
    ),
    Command(
        "retry",
        "queue a failed or cancelled task again",
        lazily("acode.cli.wish", "retry"),
        ("acode task retry 01J9X", "acode task retry 01J9X --reset-attempts"),
        lazily("acode.cli.wish", "retry_arguments"),
    ),
    Command(
        "why",
        "explain why a task runs, waits or has ended",
        lazily("acode.cli.why", "why"),
        ("acode task why 01J9X", "acode task why 01J9X --json"),
        add_id,
    ),
)
