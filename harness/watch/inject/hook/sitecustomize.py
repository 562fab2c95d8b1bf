"""Python imports this at its start, because gradsync watch puts its folder first on PYTHONPATH.

It starts the hook, and then runs the sitecustomize that would have been imported without it.
Nothing that goes wrong here may stop the interpreter.
"""

import contextlib
import importlib.machinery
import importlib.util
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))


def run_next_sitecustomize():
    """Imports the sitecustomize of the rest of sys.path, if there is one, in the place of this."""
    rest = [folder for folder in sys.path if os.path.abspath(folder or os.curdir) != HERE]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", rest)
    if spec is None or spec.loader is None:
        return
    module = importlib.util.module_from_spec(spec)
    sys.modules["sitecustomize"] = module
    spec.loader.exec_module(module)


# Whatever went wrong: the watcher finds no file of the hook's, and says so.
with contextlib.suppress(Exception):
    import gradsync_watch_hook

    gradsync_watch_hook.start()

run_next_sitecustomize()
