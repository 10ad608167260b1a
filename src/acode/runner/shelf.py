"""Directories for attempts. Handing one out is a rename; only an empty one is taken back."""

import os
import shutil
import stat


class Shelf:
    """Keeps one spare directory, because making one costs ten times a rename."""

    def __init__(self, directory: str, name: str) -> None:
        self._spare = f"{directory}/.{name}"
        self._has_spare = False
        os.makedirs(directory, exist_ok=True)

    def hand_out(self, path: str) -> None:
        """Make an empty directory at this path."""
        if self._has_spare:
            self._has_spare = False
            try:
                os.rename(self._spare, path)
            except OSError:
                pass  # something took our spare away; make a new one
            else:
                return
        os.makedirs(path, mode=0o700)

    def take_back(self, path: str) -> None:
        """Remove the directory with everything in it."""
        if not self._has_spare and _is_as_made(path):
            try:
                os.rename(path, self._spare)
            except OSError:
                pass
            else:
                self._has_spare = True
                return
        remove(path)

    def clear(self) -> None:
        """Remove the spare."""
        remove(self._spare)
        self._has_spare = False


def _is_as_made(path: str) -> bool:
    try:
        status = os.lstat(path)
        if stat.S_IMODE(status.st_mode) != 0o700 or not stat.S_ISDIR(status.st_mode):
            return False
        return status.st_uid == os.geteuid() and not os.listdir(path) and not os.listxattr(path)
    except OSError:
        return False


def remove(path: str) -> None:
    """Remove a directory tree, also one whose directories were made read-only."""
    if os.path.islink(path):
        os.unlink(path)
        return
    shutil.rmtree(path, onerror=_make_writable)


def _make_writable(_function: object, path: str, _error: object) -> None:
    try:
        os.chmod(os.path.dirname(path), 0o700)
        if os.path.isdir(path) and not os.path.islink(path):
            os.chmod(path, 0o700)
            shutil.rmtree(path, ignore_errors=True)
        else:
            os.unlink(path)
    except OSError:
        return  # what cannot be removed now is the janitor's
