"""Problems as people read them."""

import pytest

from acode.reading.problem import SHOWN, Problem, closest, field_name, listing, quoted


def test_a_problem_is_one_line_with_place_field_found_and_expected():
    problem = Problem("tasks.yml", 7, "tasks[1].priority", '"urgent"', "one of high, medium")
    assert str(problem) == (
        'tasks.yml:7: tasks[1].priority: found "urgent", expected one of high, medium'
    )


def test_a_source_without_lines_is_named_alone():
    assert str(Problem("--timeout", 0, "", '"x"', "a number")) == (
        '--timeout: found "x", expected a number'
    )


def test_a_source_with_a_newline_in_its_name_stays_on_one_line():
    assert "\n" not in str(Problem("a\nb.yml", 1, "", "nothing", "a task"))


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ((), ""),
        (("tasks", 1, "priority"), "tasks[1].priority"),
        ((0, "env", "A-B"), "[0].env.A-B"),
        (("metadata", "a b\n"), 'metadata."a b\\n"'),
    ],
)
def test_a_path_is_written_as_people_write_it(path, name):
    assert field_name(path) == name


@pytest.mark.parametrize(
    "text",
    [
        "postgresql://user:geheim@host/db",
        "postgresql://user:ge@heim/x@host/db",
        "postgresql://host/db?password=geheim",
    ],
)
def test_a_password_is_never_shown(text):
    assert "heim" not in quoted(text)


def test_what_is_shown_is_short_and_harmless():
    shown = quoted("\x1b[31m" + "x" * 500)
    assert len(shown) < 80
    assert "\x1b" not in shown


def test_problems_are_listed_in_the_order_of_their_lines():
    problems = [Problem("f", line, "", "a", "b") for line in (3, 1, 2)]
    assert [line[:3] for line in listing(problems).splitlines()] == ["f:1", "f:2", "f:3"]


def test_a_long_list_of_problems_is_cut_and_says_so():
    lines = listing([Problem("f", 1, "", "a", "b")] * (SHOWN + 7)).splitlines()
    assert len(lines) == SHOWN + 1
    assert lines[-1] == "… and 7 more"


def test_the_closest_word_ignores_case_and_gives_up_on_nonsense():
    assert closest("PRIORTY", ["priority", "type"]) == "priority"
    assert closest("zzzzzz", ["priority", "type"]) is None
    assert closest("x" * 100_000, ["priority"]) is None
