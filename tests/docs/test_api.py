"""What is public is told: every name, method, option, message and route stands in docs/API.md, in code."""

from __future__ import annotations

import argparse
import inspect
import tomllib
from collections.abc import Iterator
from dataclasses import fields
from typing import Any, cast, get_args

import msgspec
import pytest
from starlette.routing import BaseRoute, Mount, Route, WebSocketRoute

import headwater
from headwater.cli import _parser
from headwater.demo.routes import demo_routes
from headwater.gateway.web.app import make_app
from headwater.model.limits import Limits
from headwater.pipeline.records.control import Control
from headwater.protocol.messages import FromClient, FromServer
from tests.docs.pages import ROOT, code_words, page, table_rows

CLASSES = ("Database", "LiveResult", "AsyncDatabase", "AsyncLiveResult")


def test_every_public_name_is_told() -> None:
    assert set(headwater.__all__) <= code_words(page("API.md").text)


@pytest.mark.parametrize("name", CLASSES)
def test_every_public_method_is_told_with_its_class(name: str) -> None:
    members = {member for member in dir(getattr(headwater, name)) if not member.startswith("_")}
    told = code_words(page("API.md").section(name))
    assert members <= told, f"{name}: {sorted(members - told)}"


@pytest.mark.parametrize("name", ["connect", "Database.query"])
def test_every_parameter_is_told(name: str) -> None:
    found: Any = headwater
    for part in name.split("."):
        found = getattr(found, part)
    named = set(inspect.signature(found).parameters) - {"self"}
    assert named <= code_words(page("API.md").section("Python"))


def test_every_command_and_option_is_told() -> None:
    told = code_words(page("API.md").section("Command line"))
    for command, parser in _commands():
        options = {option for action in parser._actions for option in action.option_strings} - {"-h", "--help"}
        assert {command, *options} <= told, f"{command}: {sorted({command, *options} - told)}"


def _commands() -> Iterator[tuple[str, argparse.ArgumentParser]]:
    for action in _parser()._actions:
        if isinstance(action, argparse._SubParsersAction):
            yield from action.choices.items()


def test_every_message_and_field_is_told() -> None:
    told = code_words(page("API.md").section("Wire"))
    for message in (*get_args(FromClient), *get_args(FromServer)):
        tag = str(message.__struct_config__.tag)
        named = {tag, *(field.name for field in msgspec.structs.fields(message))}
        assert named <= told, f"{tag}: {sorted(named - told)}"


def test_every_route_is_told() -> None:
    routes = [*make_app(cast(Any, None)).routes, *demo_routes(cast(Any, None), [])]
    told = code_words(page("API.md").section("HTTP"))
    assert {_path(route) for route in routes} <= told


def _path(route: BaseRoute) -> str:
    assert isinstance(route, Route | WebSocketRoute | Mount)
    return route.path


def test_every_limit_is_told() -> None:
    told = code_words(page("limits.md").text)
    assert {field.name for field in fields(Limits)} <= told


def test_every_record_of_the_log_is_told() -> None:
    told = code_words(page("log.md").section("Records"))
    assert {record.__name__ for record in get_args(Control)} <= told


def test_every_package_is_on_the_map() -> None:
    source = ROOT / "src/headwater"
    packages = {path.parent.name + "/" for path in source.glob("*/__init__.py")}
    modules = {path.name for path in source.glob("*.py")} - {"__init__.py"}
    told = {row[0].strip("`") for row in table_rows(page("ARCHITECTURE.md").section("Code map"))}
    assert packages | modules <= told, sorted((packages | modules) - told)


def test_every_dependency_is_told() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    wanted = [*project["project"]["dependencies"], *project["project"]["optional-dependencies"]["spark"]]
    wanted += project["dependency-groups"]["dev"]
    names = {requirement.replace("<", ">").replace("=", ">").split(">")[0].strip() for requirement in wanted}
    told = {row[0].strip("`") for row in table_rows(page("dependencies.md").text)}
    assert names <= told, sorted(names - told)
