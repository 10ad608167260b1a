"""Fork bombs, under whatever name: functions that start themselves twice over."""

from collections.abc import Iterator, Mapping

from acode.policy.shell.reader import plain
from acode.policy.shell.syntax import Group, Output, Pipeline, Script, Simple


def is_bomb(functions: Mapping[str, Script], name: str) -> bool:
    """Whether a function leads back to itself, and doubles on the way."""
    return any(
        name in _reached(functions, other) or name == other
        for other in _doubled(functions[name])
        if other in functions
    )


def _reached(functions: Mapping[str, Script], name: str) -> set[str]:
    """Every function that this one calls, and those that they call."""
    reached: set[str] = set()
    waiting = [name]
    while waiting:
        body = functions.get(waiting.pop(), ())
        called = {each for pipeline in _pipelines(body) for each in _called(pipeline)} - reached
        reached |= called
        waiting += called
    return reached


def _doubled(body: Script) -> set[str]:
    """Names that run twice at once: piped into each other, or one while another goes on."""
    calls = [(name, pipeline) for pipeline in _pipelines(body) for name in _called(pipeline)]
    return {
        name
        for name, pipeline in calls
        if (len(pipeline.commands) > 1 or pipeline.in_background)
        and sum(1 for other, _ in calls if other == name) > 1
    }


def _called(pipeline: Pipeline) -> Iterator[str]:
    for command in pipeline.commands:
        if isinstance(command, Simple) and command.words:
            name = plain(command.words[0])
            if name is not None:
                yield name


def _pipelines(script: Script) -> Iterator[Pipeline]:
    for pipeline in script:
        yield pipeline
        for command in pipeline.commands:
            match command:
                case Group(inner):
                    yield from _pipelines(inner)
                case Simple(words=words):
                    for word in words:
                        for part in word:
                            if isinstance(part, Output):
                                yield from _pipelines(part.script)
