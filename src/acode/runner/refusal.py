"""Why a command could not be started, or its result not be kept, in words that help."""

import errno

from acode.model.failure import Category, Failure, FailureCode


def not_startable(program: str, directory: str | None, error: OSError) -> Failure | None:
    """The task's failure behind an error of the operating system; None if it is no fault of it."""
    match error.errno:
        case errno.ENOENT | errno.ENOTDIR if directory and error.filename != program:
            return no_directory(directory)
        case errno.ENOENT:
            return Failure(
                FailureCode.TOOL_NOT_FOUND,
                Category.PERMANENT,
                f"{program} is not there",
                "install it, or check PATH and the name",
                final=True,
            )
        case errno.EACCES | errno.EPERM | errno.ENOEXEC:
            return Failure(
                FailureCode.PERMISSION_DENIED,
                Category.PERMANENT,
                f"{program} cannot be executed: {error.strerror}",
                "make it executable (chmod +x), or give it a #! line",
                final=True,
            )
        case errno.E2BIG:
            return Failure(
                FailureCode.INVALID_TASK,
                Category.PERMANENT,
                "the command line and the environment are too large",
                "pass large values in a file",
                final=True,
            )
        case _:
            return None


def no_directory(directory: str) -> Failure:
    """The place that a command was to run in is not there."""
    return Failure(
        FailureCode.INVALID_TASK,
        Category.PERMANENT,
        f"there is no directory {directory} to run it in",
        "name one below its workspace with --cwd, or leave it out",
        final=True,
    )


def not_kept(problem: str) -> Failure:
    """The work is done, and nothing of it is left."""
    return Failure(
        FailureCode.IPC_FAILURE,
        Category.TRANSIENT,
        f"the command succeeded, but its result could not be kept: {problem}",
        "acode task restore ID brings back what was saved of it; acode doctor tells more",
    )
