"""Bytes to values with places."""

import json

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from acode.reading.document import MAX_BYTES, read
from acode.reading.node import MAX_DEPTH, Node, plain


def values(data: bytes, source: str):
    problems = []
    node = read(data, source, problems)
    assert not problems
    assert node is not None
    return plain(node)


def problems_of(data: bytes, source: str) -> list[str]:
    problems = []
    read(data, source, problems)
    return [str(problem) for problem in problems]


@pytest.fixture(params=["c", "python"])
def yaml_parser(request, monkeypatch):
    """Both parsers of PyYAML: the one in C is not everywhere."""
    if request.param == "python":
        monkeypatch.delattr(yaml, "CSafeLoader")
    return request.param


def test_yaml_gives_numbers_booleans_and_null():
    text = b"[1, -2, 0.5, 1e3, true, False, null, ~, text, 'true', \"1\"]"
    assert values(text, "a.yml") == [
        *(1, -2, 0.5, 1000.0, True, False, None, None, "text", "true", "1")
    ]


@pytest.mark.parametrize("word", ["off", "on", "yes", "no", "y", "0x10", "1_000", "12:30", ".inf"])
def test_words_that_old_yaml_turns_into_something_else_stay_text(word):
    assert values(f"a: {word}".encode(), "a.yml") == {"a": word}


def test_a_number_remembers_how_it_was_written():
    for source, text in (("a.yml", b"a: 1.10"), ("a.json", b'{"a": 1.10}')):
        node = read(text, source, [])
        assert node is not None
        assert node.value["a"].text == "1.10"


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("a.yml", "one: 1\ntwo:\n  three: 3\n  four:\n  - x\n  - y\n"),
        ("a.json", '{"one": 1,\n"two":\n{"three": 3,\n "four": [\n"x",\n"y"]}}'),
    ],
)
def test_every_value_knows_its_line(source, text):
    node = read(text.encode(), source, [])
    assert node is not None
    two = node.value["two"]
    assert node.value["one"].line == 1
    assert two.line == 2
    assert two.value["three"].line == 3
    assert [each.line for each in two.value["four"].value] == [5, 6]


@pytest.mark.parametrize(
    ("source", "text"),
    [("a.yml", "x:\n  a: 1\n  b: 2\n  a: 3\n"), ("a.json", '{"x": {"a": 1,\n"b": 2,\n\n"a": 3}}')],
)
def test_a_key_given_twice_is_a_problem(source, text):
    (problem,) = problems_of(text.encode(), source)
    assert problem.startswith(f"{source}:4: x.a: found the key again (first on line ")


def test_an_alias_repeats_a_value(yaml_parser):
    assert values(b"a: &a {x: 1}\nb: *a\nc: [*a]\n", "a.yml") == {
        "a": {"x": 1},
        "b": {"x": 1},
        "c": [{"x": 1}],
    }


def test_a_billion_laughs_are_refused_at_once(yaml_parser):
    rows = ["a0: &a0 [" + ",".join(["lol"] * 9) + "]"]
    rows += [f"a{n}: &a{n} [{','.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 10)]
    (problem,) = problems_of("\n".join(rows).encode(), "a.yml")
    assert "aliases that repeat more than 1,000,000 values" in problem


def test_aliases_cannot_nest_deeper_than_text():
    rows = ["a0: &a0 [x]", *(f"a{n}: &a{n} [*a{n - 1}]" for n in range(1, 3000))]
    (problem,) = problems_of("\n".join(rows).encode(), "a.yml")
    assert "found deeper nesting, expected at most 20 levels" in problem


def test_a_value_cannot_contain_itself():
    (problem,) = problems_of(b"a: &a [*a]", "a.yml")
    assert problem == "a.yml:1: a[0]: found the alias *a, expected an anchor &a before it"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("a: 1\n---\nb: 2\n", "a second document"),
        ("? [a]\n: b\n", "a key that is not text"),
        ("a: !!python/object:os.system x\n", "python/object:os.system"),
        ("a: !thing {}\n", '"!thing"'),
        ("a: 'x\n", "(found unexpected end of stream)"),
        ("a: b: c\n", "mapping values are not allowed"),
        ('a: "\\UFFFFFFFF"\n', "well-formed YAML"),
        ("a: \x07\n", "well-formed YAML"),
        ('a: "\\0"\n', "a NUL character"),
        ('"\\0": a\n', "a NUL character"),
        ("a: 99999999999999999999\n", "99999999999999999999"),
        ("a: 1e999\n", "1e999"),
        ("a: " + "9" * 5000, "9999"),
    ],
)
def test_yaml_that_is_wrong_is_a_problem(yaml_parser, text, found):
    (problem,) = problems_of(text.encode(), "a.yml")
    assert problem.startswith("a.yml:") or yaml_parser == "python"
    assert found in problem


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "a.json:1: found the end of the text, expected a JSON value"),
        ("[1,]", 'a.json:1: [1]: found "]", expected a JSON value'),
        ("[1 2]", 'a.json:1: found "2]", expected ","'),
        ("{a: 1}", 'a.json:1: found "a: 1}", expected a key in quotes'),
        ('{"a" 1}', 'a.json:1: found "1}", expected ":"'),
        ('\n{"a":\nnope}', 'a.json:3: a: found "nope}", expected a JSON value'),
        ("[1] x", 'a.json:1: found "x", expected the end'),
        ("NaN", 'a.json:1: found "NaN", expected a JSON value'),
        ("-Infinity", 'a.json:1: found "-Infinity", expected a JSON value'),
        ("01", 'a.json:1: found "1", expected the end'),
        ('"\\ud800"', "a.json:1: found text that is not UTF-8, expected text"),
        ('"\\u0000"', "a.json:1: found text with a NUL character, expected text"),
        ("1e400", 'a.json:1: found "1e400", expected a number of at most 64 bits'),
    ],
)
def test_json_that_is_wrong_is_a_problem(text, problem):
    assert problems_of(text.encode(), "a.json") == [problem]


def test_a_string_that_does_not_end_is_a_problem_of_json():
    (problem,) = problems_of(b'{"a": "x}', "a.json")
    assert "expected well-formed JSON" in problem


JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63) + 1, 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec="utf-8", exclude_characters="\0")),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.text(st.characters(codec="utf-8", exclude_characters="\0")), inner, max_size=4
        )
    ),
    max_leaves=20,
)


@given(JSON_VALUES, st.booleans(), st.sampled_from([None, 2]))
@example({"a": [1.5, {"b": "\u2028 é \U0001f600"}]}, True, None)
def test_json_reads_what_json_wrote(value, ascii_only, indent):
    text = json.dumps(value, ensure_ascii=ascii_only, indent=indent)
    read_back = values(text.encode(), "a.json")
    assert read_back == value
    assert json.dumps(read_back) == json.dumps(value)


@given(JSON_VALUES)
def test_yaml_reads_what_yaml_wrote(value):
    text = yaml.safe_dump(value)
    assert values(text.encode(), "a.yml") == value


@pytest.mark.parametrize("source", ["a.yml", "a.json", "a.jsonl"])
@pytest.mark.parametrize("opening", ["[", '{"a":'])
def test_deep_nesting_is_refused_without_recursion(source, opening):
    fits = opening * MAX_DEPTH + "1" + ("]" if opening == "[" else "}") * MAX_DEPTH
    assert not problems_of(fits.encode(), source)
    for depth in (MAX_DEPTH + 1, 100_000):
        (problem,) = problems_of((opening * depth).encode(), source)
        assert problem.endswith("found deeper nesting, expected at most 20 levels")


def test_the_size_is_limited_to_the_byte():
    assert not problems_of(b"#" * MAX_BYTES, "a.txt")
    (problem,) = problems_of(b"#" * (MAX_BYTES + 1), "a.txt")
    assert problem == "a.txt: found more, expected at most 1,048,576 bytes"


@pytest.mark.parametrize("source", ["a.yml", "a.json", "a.jsonl", "-"])
def test_only_utf_8_is_text(source):
    (problem,) = problems_of(b"ok\n\xff\xfe", source)
    assert problem == f"{source}:2: found the byte 0xff, expected text in UTF-8"
    (problem,) = problems_of(b"\x7fELF\0\0", source)
    assert problem == f"{source}: found binary data, expected text in UTF-8"


@pytest.mark.parametrize(
    ("source", "text"), [("a.yml", "a: 1\r\n"), ("a.json", '{"a":\r\n1}\r\n'), ("-", "a: 1\r\n")]
)
def test_a_byte_order_mark_and_windows_line_ends_do_no_harm(source, text):
    assert values(b"\xef\xbb\xbf" + text.encode(), source) == {"a": 1}


def test_plain_text_is_one_command_to_a_line():
    text = b"\xef\xbb\xbfmake all\r\n\r\n  # a comment\n\techo '# no comment'  \n"
    assert values(text, "-") == ["make all", "echo '# no comment'"]


def test_json_lines_report_every_bad_line():
    problems = problems_of(b'{"a": 1}\n\nnope\n{"a": 2}\n[\n', "a.jsonl")
    assert [problem.split(":")[1] for problem in problems] == ["3", "5"]


@pytest.mark.parametrize(
    ("source", "text", "value"),
    [
        ("-", '{"a": 1}', {"a": 1}),
        ("-", '{"a": 1}\n{"a": 2}\n', [{"a": 1}, {"a": 2}]),
        ("-", '{\n"a": 1}', {"a": 1}),
        ("-", "[]", []),
        ("-", "- a\n- b\n", ["a", "b"]),
        ("-", "# tasks\n\ntasks:\n- a\n", {"tasks": ["a"]}),
        ("-", "---\na: 1\n", {"a": 1}),
        ("-", "[ -f x ] && make\n", ["[ -f x ] && make"]),
        ("-", "echo a: b\n", ["echo a: b"]),
        ("-", "http://x\n", ["http://x"]),
        ("-", "", []),
        ("tasks.sh", "make\n", ["make"]),
        ("tasks", "make\n", ["make"]),
        ("A.YML", "echo a", "echo a"),
        ("a.ndjson", '"x"\n"y"', ["x", "y"]),
    ],
)
def test_the_name_or_else_the_first_line_tells_the_format(source, text, value):
    assert values(text.encode(), source) == value


@given(
    st.binary(max_size=300) | st.text(max_size=300).map(str.encode),
    st.sampled_from(["a.yml", "a.json", "a.jsonl", "-"]),
)
def test_whatever_the_bytes_there_is_a_value_or_a_problem(data, source):
    problems = []
    node = read(data, source, problems)
    assert isinstance(node, Node) or problems
    assert all("\n" not in str(problem) for problem in problems)


YAML_BITS = st.sampled_from(
    [*"[]{}:,-?!&*|>'\"%@`#\n \t", "a", "&a", "*a", "? ", "- ", ": ", "<<", "---", "...", "!!str "]
)


@given(st.lists(YAML_BITS, max_size=40).map("".join), st.booleans())
def test_no_mixture_of_yaml_signs_breaks_the_reader(text, in_c):
    problems = []
    with pytest.MonkeyPatch.context() as patch:
        if not in_c:
            patch.delattr(yaml, "CSafeLoader")
        assert read(text.encode(), "a.yml", problems) or problems
