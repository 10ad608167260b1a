"""Which words git could take for a commit, as far as can be told without a repository."""

import re

_SUFFIX = re.compile(r"(\^(\d+|\{[^{}]*\})?|~\d*|@\{[^{}]*\})*\Z")
_FORBIDDEN = re.compile(r"[\x00-\x20\x7f~^:?*\[\\]|\.\.|@\{|//|/\.|\.lock(/|\Z)")


def is_revision(text: str) -> bool:
    """Whether a word is a ref or commit with, perhaps, git's ways to go on from there."""
    if text.startswith(":/"):
        return len(text) > 2  # the newest commit whose message has these words
    if text.startswith("@{"):
        text = f"HEAD{text}"  # as `@{upstream}`, of the branch that is checked out
    end = _end_of_name(text)
    return is_ref(text[:end]) and _SUFFIX.match(text, end) is not None


def is_ref(text: str) -> bool:
    """Whether git allows such a name for a branch or tag; `@` is short for HEAD."""
    return (
        bool(text) and not _FORBIDDEN.search(text) and text[0] not in "-./" and text[-1] not in "./"
    )


def _end_of_name(text: str) -> int:
    """Where the name ends: at the first mark that no name has."""
    marks = [text.find(mark) for mark in ("^", "~", "@{")]
    return min((place for place in marks if place >= 0), default=len(text))
