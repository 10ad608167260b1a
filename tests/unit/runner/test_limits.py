import os
import resource
import subprocess
import sys
from pathlib import Path

from acode.model.limits import AttemptLimits, OverLimitAction
from acode.runner.limits import OOM_SCORE_ADJ, bind_for_good, bounds_of

KILL = AttemptLimits(max_open_files=30, disk_mb=1, action=OverLimitAction.KILL)
SHOW = """
import resource
for which in (resource.RLIMIT_NOFILE, resource.RLIMIT_FSIZE, resource.RLIMIT_CORE):
    print(*resource.getrlimit(which))
print(open("/proc/self/oom_score_adj").read().strip())
print(resource.getrlimit(resource.RLIMIT_AS) == (resource.RLIM_INFINITY, ) * 2)
"""
IN_A_WORKER = f"""
import os, resource, sys
from acode.runner.limits import Inheritance
from acode.model.limits import AttemptLimits, OverLimitAction
limits = AttemptLimits(max_open_files=30, disk_mb=1, action=OverLimitAction.KILL)
mine = Inheritance(limits)
with mine.handed_down(limits):
    pid = os.posix_spawn(sys.executable, [sys.executable, "-c", {SHOW!r}], os.environ)
os.waitpid(pid, 0)
print("worker", *resource.getrlimit(resource.RLIMIT_NOFILE), flush=True)
print(resource.getrlimit(resource.RLIMIT_FSIZE)[0] == resource.RLIM_INFINITY)
print(open("/proc/self/oom_score_adj").read().strip())
mine.close()
"""


def run(code: str, **options: object) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        **options,  # type: ignore[call-overload]
    )
    return str(done.stdout).splitlines()


def test_the_size_of_a_file_is_bounded_only_if_an_attempt_is_to_be_killed() -> None:
    assert resource.RLIMIT_FSIZE in bounds_of(KILL)
    assert resource.RLIMIT_FSIZE not in bounds_of(AttemptLimits())
    assert resource.RLIMIT_AS not in bounds_of(KILL)
    assert resource.RLIMIT_NPROC not in bounds_of(KILL)


def test_a_child_binds_itself_for_good() -> None:
    mb = 1 << 20
    own = resource.getrlimit(resource.RLIMIT_CORE)[1]
    seen = run(SHOW, preexec_fn=lambda: bind_for_good(KILL))
    assert seen == ["30 30", f"{mb} {mb}", f"0 {own}", str(OOM_SCORE_ADJ), "True"]


def test_a_worker_hands_down_limits_and_keeps_its_own() -> None:
    before = Path("/proc/self/oom_score_adj").read_text(encoding="ascii").strip()
    seen = run(IN_A_WORKER, env=os.environ)
    inside, outside = seen[:5], seen[5:]
    assert inside[0] == "30 64"
    assert inside[1].split()[0] == str(1 << 20)
    assert inside[2].split()[0] == "0"
    assert int(inside[3]) == max(OOM_SCORE_ADJ, int(before))
    assert inside[4] == "True"
    assert outside == ["worker 64 64", "True", before]


def test_nobody_gets_more_than_there_is() -> None:
    script = IN_A_WORKER.replace("max_open_files=30", "max_open_files=10**6")

    def lower() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (50, 100))

    seen = run(script, env=os.environ, preexec_fn=lower)
    assert seen[0] == "100 100"
