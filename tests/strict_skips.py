"""pytest plugin: a skip is a failure.

What cannot run somewhere (a GPU, a Docker engine) is deselected by its marker; nothing else may be skipped, since a
test that skips itself hides the thing it was to show.
"""

import pytest


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    skipped = reporter.stats.get("skipped", []) if reporter is not None else []
    if skipped and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
        reporter.write_line(
            f"{len(skipped)} skipped test(s) count as failures: deselect by marker or run them",
            red=True,
        )
