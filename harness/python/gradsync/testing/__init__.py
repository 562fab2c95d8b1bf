"""The parts of the pytest plugin: gradsync/pytest_plugin.py has its hooks and fixtures.

Nothing here imports torch in pytest's own process; the ranks it starts do.
"""
