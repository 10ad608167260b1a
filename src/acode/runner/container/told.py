"""What is known of a command in a container beyond its exit code."""

import msgspec

from acode.runner.container.seat import Seat

KILL_SECONDS = 5.0
LOOK_SECONDS = 3.0


class Told(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How it went, as far as it was told."""

    unstarted: str | None = None
    """Why the command never ran."""
    lost: str | None = None
    """Why nobody knows how it ended."""
    absent: bool = False
    """The image has no such program."""
    nowhere: bool = False
    """The image has no such directory."""
    oom: bool = False
    strays: bool = False
    broken: bool = False
    """The container is of no more use."""
    cpu_seconds: float = 0.0
    max_memory_bytes: int = 0


class Listening:
    """Makes sense of what a supervisor says about one command."""

    def __init__(self) -> None:
        self.told = Told()
        self.has_greeted = False
        self.has_begun = False
        """From now on it can be asked to end."""

    def heed(self, words: list[str]) -> int | None:
        """Take in an answer; the exit code if the command has ended."""
        match words:
            case ["end", status, kills, nanoseconds, peak]:
                self.note(
                    oom=int(kills) > 0,
                    cpu_seconds=round(int(nanoseconds) / 1e9, 6),
                    max_memory_bytes=int(peak),
                )
                return int(status)
            case ["hello"]:
                self.has_greeted = True
            case ["begun"]:
                self.has_begun = True
            case ["absent"]:
                self.note(absent=True)
            case ["nowhere"]:
                self.note(nowhere=True)
        return None

    def note(self, **known: object) -> None:
        """Something else is known."""
        self.told = msgspec.structs.replace(self.told, **known)

    def bury(self, seat: Seat) -> None:
        """The container ended under us: why, as far as the engine knows."""
        from acode.runner.container.api import Api, EngineError

        why, oom = "its container is gone", False
        try:
            api = Api(seat.engine)
            state = api.get(f"/containers/{seat.container_id}/json", LOOK_SECONDS)["State"]
            oom = bool(state.get("OOMKilled"))
            if not state.get("Running"):
                why = f"its container ended with exit code {state.get('ExitCode')}"
        except EngineError as error:
            if error.status != 404:
                why = f"its container is gone, and {error}"
        self.note(lost=why, oom=oom, broken=True)


def kill_container(seat: Seat) -> None:
    """The last resort: everything in it dies, whatever it does."""
    from acode.runner.container.api import Api, EngineError  # rarely needed, and large

    try:
        Api(seat.engine).post(f"/containers/{seat.container_id}/kill", seconds=KILL_SECONDS)
    except EngineError:
        return  # gone already, or beyond our reach
