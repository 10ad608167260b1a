"""The demo checks what it shows."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_everything_that_the_demo_expects_holds(tmp_path: Path) -> None:
    demo = [sys.executable, str(ROOT / "tools" / "demo.py"), str(tmp_path)]
    env = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull}
    done = subprocess.run(demo, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "!!" not in done.stdout
