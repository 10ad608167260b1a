"""Keys to the HTTP door: the token, login links that work once, and browser sessions.

All of them lie in the run directory, which only its owner may enter.
"""

import os
from contextlib import suppress

from acode.clock import Clock
from acode.project import Project

LOGIN_MS = 3_600_000
"""A login link that nobody used is void after an hour."""
SESSION_MS = 30 * 86_400_000


def token(project: Project) -> str:
    """The token, made where there is none yet."""
    return _kept(project, project.token_file)


def peer_key(project: Project) -> str:
    """The key for other hosts, which opens nothing but what tasks left."""
    return _kept(project, project.peer_key_file)


def _kept(project: Project, path: str) -> str:
    project.prepare()
    while True:
        with suppress(FileNotFoundError), open(path, encoding="ascii") as file:
            if found := file.read().strip():
                return found
        _write_new(path, _random())


def login_link(project: Project, url: str) -> str:
    """An address that lets a browser in, once."""
    project.prepare()
    os.makedirs(project.login_dir, mode=0o700, exist_ok=True)
    code = _random()
    _write_new(_slip(project, code), "")
    return f"{url}/login?code={code}"


def use_login(project: Project, code: str, clock: Clock) -> bool:
    """Whether the code is good; it never is again."""
    path = _slip(project, code)
    try:
        made_at = os.stat(path).st_mtime_ns // 1_000_000
        os.unlink(path)  # only one of those who try at once succeeds
    except OSError:
        return False
    return clock.now() - made_at <= LOGIN_MS


def forget_logins(project: Project, clock: Clock) -> None:
    """Remove links that are void."""
    with suppress(FileNotFoundError):
        for entry in os.scandir(project.login_dir):
            if clock.now() - entry.stat().st_mtime_ns // 1_000_000 > LOGIN_MS:
                os.unlink(entry.path)


def session(secret: str, now: int) -> str:
    """What a browser keeps: good for a while, and made with the token, so a new one ends it."""
    until = str(now + SESSION_MS)
    return f"{until}.{_signature(secret, until)}"


def is_session(secret: str, text: str, now: int) -> bool:
    """Whether we have made this and it is still good."""
    until, _, signature = text.partition(".")
    return same(signature, _signature(secret, until)) and until.isdecimal() and int(until) > now


def cookie_name(secret: str) -> str:
    """Projects on different ports share the browser's cookies, so each needs a name of its own."""
    return f"acode-{_signature(secret, 'cookie')[:12]}"


def same(one: str, other: str) -> bool:
    """Whether two secrets are the same, in a time that tells nothing."""
    import hmac

    return hmac.compare_digest(one.encode(), other.encode())


def _signature(secret: str, text: str) -> str:
    import hmac

    return hmac.new(secret.encode(), text.encode(), "sha256").hexdigest()


def _slip(project: Project, code: str) -> str:
    """Named by a digest: a code cannot lead to another path, and a listing tells nothing."""
    import hashlib

    return os.path.join(project.login_dir, hashlib.sha256(code.encode()).hexdigest())


def _random() -> str:
    return os.urandom(24).hex()


def _write_new(path: str, text: str) -> None:
    """Complete or not at all, and for the owner's eyes only."""
    draft = f"{path}.{os.getpid()}"
    with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        file.write(text)
    try:
        os.link(draft, path)
    except FileExistsError:
        return
    finally:
        os.unlink(draft)
