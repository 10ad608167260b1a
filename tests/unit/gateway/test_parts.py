"""The gateway in the small: buckets, frames, keys, and what is painted of foreign text."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from websockets.frames import Frame, Opcode
from websockets.streams import StreamReader

from acode.clock import ManualClock
from acode.gateway.dashboard.paint import ansi, diff, diff_size, marked
from acode.gateway.limits import Bucket
from acode.gateway.wire import frame
from acode.keys import is_session, login_link, session, token, use_login
from acode.project import Project


def test_a_bucket_gives_what_is_in_it_and_fills_again() -> None:
    bucket = Bucket(rate=0, size=3)
    assert [bucket.take() for _ in range(5)] == [True, True, True, False, False]
    assert bucket.is_empty
    assert Bucket(rate=1e9, size=1).take()
    quick = Bucket(rate=1e9, size=1)
    assert all(quick.take() for _ in range(100))


@given(st.binary(max_size=200) | st.integers(100, 140_000).map(lambda size: b"x" * size))
def test_frames_are_what_any_client_reads(data: bytes) -> None:
    reader = StreamReader()
    reader.feed_data(frame(data))
    with pytest.raises(StopIteration) as done:
        next(Frame.parse(reader.read_exact, mask=False))
    assert done.value.value.opcode is Opcode.TEXT
    assert bytes(done.value.value.data) == data


def test_a_session_is_bound_to_its_token_and_ends() -> None:
    good = session("secret", 1_000)
    assert is_session("secret", good, 2_000)
    assert not is_session("other", good, 2_000)
    assert not is_session("secret", good, 10**14)
    until, _, signature = good.partition(".")
    for forged in ("", ".", good[:-1], f"9{until}.{signature}", f"{until}.", "x" * 99, "é.é"):
        assert not is_session("secret", forged, 2_000)


def test_the_token_is_made_once(tmp_path: Path) -> None:
    project = Project(str(tmp_path))
    first = token(project)
    assert token(project) == first
    assert len(first) >= 32
    assert os.stat(project.token_file).st_mode & 0o777 == 0o600


def test_a_code_leads_nowhere_else(tmp_path: Path) -> None:
    project, clock = Project(str(tmp_path)), ManualClock()
    key = token(project)
    for code in ("../token", "", "/etc/passwd", "a" * 1000):
        assert not use_login(project, code, clock)
    assert token(project) == key
    code = login_link(project, "http://x").partition("code=")[2]
    assert use_login(project, code, clock)
    assert not use_login(project, code, clock)


@given(st.text())
def test_foreign_text_is_never_markup(text: str) -> None:
    for html in (ansi(text), marked(ansi(text), text[:3]), diff(text)):
        inside = html
        for tag in ("<mark>", "</mark>", "</span>", "</pre>"):
            inside = inside.replace(tag, "")
        for piece in inside.split("<")[1:]:
            assert piece.startswith(("span style=", "span class=", 'pre class="diff"')), html


def test_colours_are_kept_and_cursors_are_not() -> None:
    assert ansi("\x1b[1;31mred\x1b[0m <b>") == (
        '<span style="font-weight:700;color:#ff8a80">red</span> &lt;b&gt;'
    )
    assert ansi("a\x1b[2Kb\x1b]0;title\x07c\rd") == "abcd"


PATCH = """diff --git a/query.sql b/query.sql
index 1..2 100644
--- a/query.sql
+++ b/query.sql
@@ -1,2 +1,2 @@
--- the old remark
+++ more of it
 SELECT 1
diff --git a/new b/new
new file mode 100644
"""


def test_what_a_file_holds_is_no_heading_of_a_patch() -> None:
    html = diff(PATCH)
    assert '<span class="del">--- the old remark</span>' in html
    assert '<span class="add">+++ more of it</span>' in html
    assert '<span class="meta">--- a/query.sql</span>' in html
    assert html.count('class="file"') == 2
    assert diff_size(PATCH) == "2 files, +1 -1 lines"
