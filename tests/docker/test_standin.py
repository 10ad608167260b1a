"""Commands in a warm container: started, fed on, ended, with everything that they started."""

import os
import signal

import pytest

from acode.runner.container.life import destroy
from acode.runner.container.standin import quiesce
from tests.docker.conftest import USER, Box, MakeBox
from tests.docker.images import BUSYBOX, GIT
from tests.pool.conftest import eventually

pytestmark = pytest.mark.needs("docker")


@pytest.fixture(params=[BUSYBOX, GIT], ids=["busybox", "dash"])
def box(request: pytest.FixtureRequest, make_box: MakeBox) -> Box:
    return make_box().start(image=request.param)


@pytest.mark.req("027b-FR-070", "027b-FR-026", "027b-AC-006")
def test_a_command_runs_with_its_arguments_and_environment(box: Box) -> None:
    odd = "a 'quoted' \"word\"\nand $HOME `id` \\ *"
    done = box.run("sh", "-c", 'printf "%s|%s" "$1" "$ODD"; pwd >&2', "sh", odd, env={"ODD": odd})
    assert (done.code, done.out, done.err) == (0, f"{odd}|{odd}", f"{box.workspace}\n")


@pytest.mark.req("027b-FR-027")
def test_output_comes_while_the_command_runs(box: Box) -> None:
    running = box.begin("sh", "-c", "echo first; read line < go; echo $line")
    os.mkfifo(f"{box.workspace}/go", 0o666)
    eventually(lambda: running.printed() == "first\n")
    os.chmod(f"{box.workspace}/go", 0o666)
    with open(f"{box.workspace}/go", "w") as go:
        go.write("second\n")
    assert running.end().out == "second\n"


def test_much_output_is_passed_on_whole(box: Box) -> None:
    running = box.begin("sh", "-c", "yes 0123456789abcde | head -c 3000000; echo end >&2")
    printed = ""

    def all_of_it() -> bool:
        nonlocal printed
        printed += running.printed()
        return len(printed) == 3_000_000

    eventually(all_of_it)
    done = running.end()
    assert (done.code, done.out, done.err) == (0, "", "end\n")
    assert set(printed.split("\n")) == {"0123456789abcde", printed.split("\n")[-1]}


def test_exit_codes_are_passed_on(box: Box) -> None:
    assert [box.sh(f"exit {code}").code for code in (0, 1, 75, 255)] == [0, 1, 75, 255]


def test_a_program_that_the_image_does_not_have_is_told(box: Box) -> None:
    done = box.run("nosuchprogram")
    assert done.told is not None
    assert done.told.absent


def test_a_directory_that_is_not_there_is_told(box: Box) -> None:
    done = box.run("true", cwd=f"{box.workspace}/nowhere")
    assert done.told is not None
    assert done.told.nowhere


def test_a_command_is_asked_to_end_and_may_clean_up(box: Box) -> None:
    running = box.begin("sh", "-c", "trap 'echo bye; exit 4' TERM; echo up; sleep 100 & wait")
    eventually(lambda: running.printed() == "up\n")
    running.kill(signal.SIGTERM)
    done = running.end()
    assert (done.code, done.out) == (4, "bye\n")
    assert box.processes() == 2, done


def test_what_a_command_leaves_behind_is_ended_with_it(box: Box) -> None:
    done = box.sh("(setsid sleep 100 &); (trap '' TERM; sleep 100 &); echo done")
    assert (done.code, done.out) == (0, "done\n")
    assert done.told is not None
    assert done.told.strays
    assert box.processes() == 2


def test_nothing_inside_outlives_a_stand_in_that_is_killed(box: Box) -> None:
    running = box.begin("sh", "-c", "trap '' TERM; setsid sleep 100 & echo up; sleep 100")
    eventually(lambda: running.printed() == "up\n")
    running.kill(signal.SIGKILL)
    assert running.end().code == -signal.SIGKILL
    eventually(lambda: box.processes() == 2)
    assert quiesce(box.seat)
    assert box.sh("echo again").out == "again\n"


def test_a_command_that_kills_its_group_hits_itself_only(box: Box) -> None:
    assert box.sh("kill -KILL 0").code == 128 + signal.SIGKILL
    assert box.sh("echo again").out == "again\n"


def test_the_end_of_the_container_is_the_loss_of_the_attempt(box: Box) -> None:
    running = box.begin("sh", "-c", "echo up; sleep 100")
    eventually(lambda: running.printed() == "up\n")
    destroy(box.api, box.seat.container_id)
    told = running.end().told
    assert told is not None
    assert told.lost in ("its container is gone", "its container ended with exit code 137")
    assert told.broken


def test_a_command_that_kills_the_supervisor_is_lost_with_it(box: Box) -> None:
    told = box.sh("read -r pid rest </proc/1/task/1/children; kill -KILL $pid; sleep 100").told
    assert told is not None
    assert told.lost is not None


def test_a_supervisor_that_stands_still_is_killed_with_its_container(box: Box) -> None:
    running = box.begin(
        "sh", "-c", "read -r pid rest </proc/1/task/1/children; kill -STOP $pid; echo up; sleep 100"
    )
    eventually(lambda: running.printed() == "up\n")
    running.kill(signal.SIGKILL)
    running.end()
    assert not quiesce(box.seat)
    eventually(lambda: box.inspect()["State"]["ExitCode"] == 137)


def test_a_task_cannot_change_what_runs_it(box: Box) -> None:
    control = box.places.control
    done = box.sh(f"echo x >{control}/supervisor; rm {control}/in; echo x >{control}/order; true")
    assert done.err.count("Read-only file system") == 3
    assert box.sh("echo again").out == "again\n"


def test_an_order_is_read_by_its_user_only(box: Box) -> None:
    running = box.begin("sh", "-c", "echo up; sleep 100", env={"TOKEN": "hush"})
    eventually(lambda: running.printed() == "up\n")
    order = os.stat(f"{box.places.control}/order")
    assert (order.st_mode & 0o777, order.st_uid) == (0o400, USER)
    assert "hush" not in str(box.inspect())
    running.kill(signal.SIGTERM)
    running.end()
    assert not os.path.exists(f"{box.places.control}/order")


@pytest.mark.req("027b-FR-042")
def test_what_a_command_used_is_counted(box: Box) -> None:
    told = box.sh("i=0; while [ $i -lt 30000 ]; do i=$((i+1)); done").told
    assert told is not None
    assert told.cpu_seconds > 0.005
