"""pytest plug-in: ``--modellint`` makes tests of the files and models of a project; without it nothing is loaded or changed."""

# pytest imports this at every start: what costs time is imported by those who ask for it.
TYPE_CHECKING = False
if TYPE_CHECKING:
    import pytest


def pytest_addoption(parser: "pytest.Parser") -> None:
    """Add the options."""
    group = parser.getgroup("modellint")
    group.addoption(
        "--modellint",
        action="store_true",
        help="Check the project's files, and the models that its settings list, as a test each.",
    )
    group.addoption(
        "--modellint-plugin",
        action="append",
        default=[],
        metavar="NAME",
        help="Take rules from this plug-in too: an installed one, a folder or a file.",
    )
    group.addoption(
        "--modellint-trust-plugins",
        action="store_true",
        help="Load the plug-ins that the settings of the project name.",
    )


def pytest_configure(config: "pytest.Config") -> None:
    """Collect tests where that is asked for."""
    if config.getoption("modellint"):
        from modellint.pytest_items import Checks

        config.addinivalue_line("markers", "modellint: a check of a file or of a model by modellint")
        config.pluginmanager.register(Checks(config), "modellint-checks")
