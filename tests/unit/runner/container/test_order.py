"""What a shell makes of an order: any words come through as they are."""

import subprocess

from hypothesis import given
from hypothesis import strategies as st

from acode.runner.container.order import Command, order_of

words = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=20)


@given(st.lists(words, max_size=4), words)
def test_words_and_variables_come_through(arguments: list[str], value: str) -> None:
    script = r'printf "%s\0" "$VALUE" "$@"'
    order = order_of(Command(["sh", "-c", script, "sh", *arguments], {"VALUE": value}, "/"))
    done = subprocess.run(["sh"], input=order.encode(), capture_output=True, check=True)
    assert done.stdout.decode().split("\0")[:-1] == [value, *arguments]


def test_names_that_no_shell_takes_and_its_own_are_left_out() -> None:
    env = {"a-b": "1", "PPID": "1", "lead": "rm", "GOOD": "1"}
    order = order_of(Command(["true"], env, "/"))
    assert [line for line in order.splitlines() if line.startswith("export")] == ["export GOOD=1"]
