"""Every example in a docstring does what it says."""

from __future__ import annotations

import doctest
import importlib

import pytest

import m2m

MODULES = ["_curator", "_estimate", "_release", "_schema", "_table", "learn", "plot"]


@pytest.mark.parametrize("name", MODULES)
def test_examples(name: str, release: m2m.Release) -> None:
    """They see what ``from m2m import *`` gives, and a release of invented people."""
    module = importlib.import_module(f"m2m.{name}")
    names = {name: getattr(m2m, name) for name in m2m.__all__} | {"release": release}
    results = doctest.testmod(module, extraglobs=names, optionflags=doctest.ELLIPSIS)
    assert results.failed == 0
    assert results.attempted > 0 or name == "_table"
