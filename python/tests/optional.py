"""Packages that a test needs and the package does not."""

import importlib
import os

import pytest


def needs(name):
    """The module, or a test that is skipped; never under `make test-python`, which installs it."""
    if os.environ.get("NEARFAR_TEST_ALL"):
        return importlib.import_module(name)
    return pytest.importorskip(name, reason=f"{name} is not installed here; make test-python installs it")
