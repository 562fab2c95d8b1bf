"""Each test runs with the bug and with the fix."""

import pytest


@pytest.fixture(params=[False, True], ids=["bug", "fix"])
def fixed(request):
    return request.param
