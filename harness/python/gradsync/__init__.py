"""Does this training synchronize its gradients when it should? Answered from inside the process.

    import gradsync

    with gradsync.watching() as watched:
        train()
    print(watched.page)
    assert watched.verdict.kind == "once_per_step"

See README.md beside this file.
"""

from gradsync.outcome import Change, Verdict, Watched
from gradsync.session import watching

__all__ = ["Change", "Verdict", "Watched", "watching"]
