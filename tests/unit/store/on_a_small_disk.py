"""What happens on a file system of one megabyte, told line by line. Run by test_disk_full.py."""

import asyncio
import sys
from pathlib import Path

from acode.clock import ManualClock
from acode.errors import AcodeError, DiskFull
from acode.store.base import TaskQuery
from acode.store.sqlite import SqliteStore
from tests.conformance.kit import PLENTY, World, assert_sound, submission


def tell(words: object) -> None:
    print(words, flush=True)  # noqa: T201


class Disk:
    """The file system, with some room that can be given back."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.queue = root / "queue.db"
        self.ballast = root / "ballast"

    def fill(self) -> None:
        """Take all the room there is."""
        with open(self.ballast, "ab", buffering=0) as file:
            for size in (65536, 4096, 512, 1):
                try:
                    while file.write(b"\0" * size):
                        pass
                except OSError:
                    continue

    def free(self) -> None:
        self.ballast.unlink()

    def open(self, grouped: bool = True) -> World:
        clock = ManualClock()
        return World(SqliteStore.open(str(self.queue), clock, grouped=grouped), clock)


async def refused(call: object) -> str:
    try:
        await call  # type: ignore[misc]
    except AcodeError as error:
        return type(error).__name__
    return "accepted"


async def ids(world: World) -> set[str]:
    return {task.id for task in await world.store.find(TaskQuery(limit=PLENTY))}


async def adding(disk: Disk, grouped: bool) -> None:
    """Batches of ten until it is full; then nothing more, nothing less."""
    disk.ballast.write_bytes(b"\0" * 300_000)
    world = disk.open(grouped)
    acknowledged: set[str] = set()
    while True:
        batch = [submission(command="x" * 500) for _ in range(10)]
        try:
            acknowledged |= {one.id for one in await world.add_all(*batch)}
        except DiskFull as full:
            tell(type(full).__name__)
            break
    tell(await ids(world) == acknowledged)
    await assert_sound(world.store)
    disk.free()
    await world.add()
    tell(len(await ids(world)) == len(acknowledged) + 1)
    await assert_sound(world.store)
    await world.store.close()
    again = disk.open()
    tell(len(await ids(again)) == len(acknowledged) + 1)
    await assert_sound(again.store)
    await again.store.close()


async def everything_else(disk: Disk) -> None:
    """Every write is refused, every read goes on, and a lease outlives the shortage."""
    world = disk.open()
    await world.complete(await world.lease(await world.add()))
    done = await world.lease(await world.add())
    waiting = await world.add()
    disk.fill()
    while await refused(world.store.pause(True, actor="user")) == "accepted":
        await refused(world.store.pause(False, actor="user"))
    tell(await refused(world.complete(done)))
    tell(await refused(world.store.cancel(waiting, actor="user")))
    tell(await refused(world.store.save_step(done.task.id, done.token, "step", 1)))
    tell(await refused(world.store.tidy(finished_before=world.clock.now() + 1, steps_before=0)))
    tell(await refused(world.store.backup(str(disk.root / "copy.db"))))
    tell(sorted(path.name for path in disk.root.iterdir()))
    await assert_sound(world.store)
    disk.free()
    await world.store.pause(False, actor="user")
    await world.complete(done)
    await world.complete(await world.lease(waiting))
    await assert_sound(world.store)
    await world.store.close()


async def opening(disk: Disk) -> None:
    """A new store needs room; when there is some, it is made as if nothing had been."""
    disk.fill()
    for _ in range(2):
        try:
            disk.open()
        except DiskFull as full:
            tell(type(full).__name__)
    disk.free()
    world = disk.open()
    await world.add()
    await assert_sound(world.store)
    await world.store.close()


async def read_only(disk: Disk) -> None:
    """Nothing can be made where nothing may be written."""
    try:
        disk.open()
    except AcodeError as error:
        tell(type(error).__name__)


def main() -> None:
    disk = Disk(Path(sys.argv[1]))
    scenarios = {
        "grouped": lambda: adding(disk, grouped=True),
        "direct": lambda: adding(disk, grouped=False),
        "everything": lambda: everything_else(disk),
        "opening": lambda: opening(disk),
        "read-only": lambda: read_only(disk),
    }
    asyncio.run(scenarios[sys.argv[2]]())
    tell("the end")


if __name__ == "__main__":
    main()
