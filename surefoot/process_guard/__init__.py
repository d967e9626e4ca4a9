"""Child processes that end when their parent ends, also when the parent is killed with SIGKILL.

A process that starts others has one guard: a small process in a session of its own that holds the read end of a pipe.
The parent holds the write end, which the system closes when the parent ends, however it ends. At end of file the guard
ends every process group that was registered, and deletes the temporary directories it was told of.
"""

from surefoot.process_guard.guard import (
    create_guarded_process,
    end_with_me,
    guarded_popen,
    remove_with_me,
    watch_my_parent,
)

__all__ = ["create_guarded_process", "end_with_me", "guarded_popen", "remove_with_me", "watch_my_parent"]
