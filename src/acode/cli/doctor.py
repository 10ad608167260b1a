"""`acode doctor`: what this machine enforces and what not, each with a fix."""

from acode.cli.context import Context
from acode.cli.parser import Command
from acode.human import clean

MISSING = 3
_MARKS = {"ok": "✓", "warning": "!", "missing": "✗"}


def _doctor(context: Context) -> int:
    from acode.cli.examination import examine

    with context.screen.working("looking at this machine"):
        findings = examine(context.app)
    if context.screen.json:
        context.screen.data([finding.view() for finding in findings])
    else:
        for finding in findings:
            context.screen.line(f"{_MARKS[finding.state]} {finding.name}: {clean(finding.found)}")
            if finding.fix:
                context.screen.line(f"    {clean(finding.fix)}")
    return MISSING if any(finding.state == "missing" for finding in findings) else 0


COMMAND = Command(
    "doctor",
    "say what this machine can enforce, and how it could do more",
    _doctor,
    ("acode doctor", "acode doctor --json"),
)
