"""The command line: what may be said and what it means. It imports a command only when that is the one to run."""

from __future__ import annotations

import argparse
import importlib.abc
import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    Commands = argparse._SubParsersAction[argparse.ArgumentParser]
N = TypeVar("N", int, float)
_DATABASE = "sqlite:///file.db or postgresql://host/database"
_SOURCES = f"{_DATABASE}; watch and explain take ws://host:port too"
_PARAM = "a value for the next parameter: ? on SQLite, $1, $2, … on PostgreSQL (repeat)"
_BY_KEY_ROWS = "a table of about so many rows is held by key while it is only asked for by key (default 1,000,000)"
_ALLOW_HOST = "another name that clients reach this server by, such as a proxy's (repeat); default: loopback names only"
_ALLOW_ORIGIN = (
    "web pages of this origin may connect too, such as https://app.example.org (repeat); default: our own only"
)
_EXAMPLES = """examples:
  headwater demo
  headwater serve --source sqlite:///shop.db --port 8080
  headwater watch "SELECT id, total FROM orders ORDER BY total DESC LIMIT 10" --source sqlite:///shop.db
  headwater watch "SELECT * FROM orders WHERE status = 'open'" --source ws://127.0.0.1:8080
  headwater explain "SELECT id FROM orders WHERE customer_id = 42" --source sqlite:///shop.db
  headwater doctor postgresql://me@db.example.org/shop
  headwater inspect ./data --records 20
  headwater detach --source sqlite:///shop.db
"""
_DOCTOR = """Looks at a database and tells whether live queries will work on it: what is needed, what was found, and the
exact statement that fixes it. It changes nothing, unless you say --fix.

  ok     nothing to do
  note   works; here is what to know, or what would be better
  bad    something will be refused, or is lost: the statement below fixes it

With --fix every statement is run that needs no decision of yours: settings of the server, rights, replica identities,
slots whose changes are gone. What is marked (by hand) is never run for you. PostgreSQL lets a role do only what it may:
to fix as an administrator what Headwater's own role lacks, name that role with --role. With --table only
those tables are checked, and fixed, that are to be live.
"""
_DOCTOR_EXAMPLES = """examples:
  headwater doctor postgresql://live@db.example.org/shop                          check
  headwater doctor postgresql://admin@db.example.org/shop --role live --fix       fix, then check again
  headwater doctor postgresql://live@db.example.org/shop --table orders           one table of many
  headwater doctor sqlite:///shop.db --json                                       for programs

exit code: 0 when nothing is bad, 1 otherwise
"""
_VERBOSE = "log what happens to standard error, in detail: as HEADWATER_LOG=debug does"
_INSPECT = "It only reads, also while a server runs. Exit code: 0 when nothing is damaged, 1 otherwise."


def main(argv: Sequence[str] | None = None) -> int:
    """Exit codes: 0, 1 failed, 2 usage."""
    args = _parser().parse_args(argv)
    if argv is None:
        _spare_pandas(args)
    from headwater.model.errors import HeadwaterError
    from headwater.runtime.log_level import show_logs

    show_logs(args.verbose)
    try:
        return _run(args)
    except HeadwaterError as error:
        _complain(error.code, str(error))
        return 1
    except KeyboardInterrupt:
        return 0


def _spare_pandas(args: argparse.Namespace) -> None:
    """pyarrow loads pandas, where it is installed, with its first array: half of all the time to start. Only Spark
    uses it; a process that is ours alone may do without."""
    if getattr(args, "runner", "inline") == "inline" or args.run == "explain:run":
        sys.meta_path.insert(0, _WithoutPandas())


def _run(args: argparse.Namespace) -> int:
    """What a command needs is imported when it is the one to run."""
    from importlib import import_module

    module, _, function = args.run.partition(":")
    return int(getattr(import_module(f"headwater.commands.{module}"), function)(args))


def _complain(code: str, message: str) -> None:
    from rich.text import Text

    from headwater.commands.terminal import err

    err.print(Text.assemble((code, "bold red"), f": {message}"), soft_wrap=True)


class _WithoutPandas(importlib.abc.MetaPathFinder):
    """To this process it is not installed."""

    def find_spec(self, name: str, path: object, target: object = None) -> None:
        if name == "pandas":
            raise ModuleNotFoundError("pandas is left out of commands that run without Spark", name=name)


class _Version(argparse.Action):
    """Asked of the installed package, and only for this option."""

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        from importlib.metadata import version

        print(f"headwater {version('headwater')}")
        parser.exit()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="headwater",
        description="Live SQL on the database you already have: subscribe to a SELECT, get every change to its result.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="print the version and exit")
    commands = parser.add_subparsers(required=True, metavar="command")
    for add in (_add_demo, _add_serve, _add_watch, _add_explain, _add_verify, _add_doctor, _add_inspect, _add_detach):
        add(commands)
    for command in commands.choices.values():
        command.add_argument("-v", "--verbose", action="store_true", help=_VERBOSE)
    return parser


def _add_demo(commands: Commands) -> None:
    demo = commands.add_parser("demo", help="a generated shop with traffic, and a live page to watch it on")
    _server_options(demo, source=False)
    demo.set_defaults(run="serve:run_demo")


def _add_serve(commands: Commands) -> None:
    server = commands.add_parser("serve", help="serve live queries on a database: WebSocket and a console page")
    _server_options(server, source=True)
    server.set_defaults(run="serve:run")


def _add_watch(commands: Commands) -> None:
    watch = _add_query(commands, "watch", "a table in the terminal that stays current")
    _count_option(watch, "stop after so many changes")


def _add_explain(commands: Commands) -> None:
    explain = _add_query(commands, "explain", "how a query would be kept current, and why")
    explain.add_argument("--analyze", action="store_true", help="run it once: rows and work of each operator")


def _add_verify(commands: Commands) -> None:
    verify = _add_query(commands, "verify", "follow a query and check it against the database")
    _count_option(verify, "stop after so many checks")


def _add_query(commands: Commands, name: str, help: str) -> argparse.ArgumentParser:
    """A command about one query."""
    command = commands.add_parser(name, help=help)
    command.add_argument("sql", metavar="SELECT", help="the query, in quotes")
    command.add_argument("--param", action="append", default=[], help=_PARAM)
    command.add_argument("--json", action="store_true", help="for pipes: one JSON document a line")
    _source_options(command)
    command.set_defaults(run=f"{name}:run")
    return command


def _count_option(parser: argparse.ArgumentParser, ends: str) -> None:
    parser.add_argument("--count", type=_number, default=0, metavar="N", help=f"{ends} (default 0: never)")


def _add_doctor(commands: Commands) -> None:
    doctor = commands.add_parser(
        "doctor",
        help="what a database needs to be live, what it has, and the statements that fix it",
        description=_DOCTOR,
        epilog=_DOCTOR_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    doctor.add_argument("url", metavar="URL", help=_DATABASE)
    doctor.add_argument("--fix", action="store_true", help="run the statements that need no decision of yours")
    doctor.add_argument("--table", action="append", default=[], help="only this table (repeat); default: all of them")
    doctor.add_argument("--role", help="PostgreSQL: the role Headwater connects as, where the address names another")
    doctor.add_argument("--json", action="store_true", help="for programs: one JSON document a finding")
    doctor.set_defaults(run="doctor:run")


def _add_inspect(commands: Commands) -> None:
    inspect = commands.add_parser("inspect", help="what is in a data directory, and what is damaged", epilog=_INSPECT)
    inspect.add_argument("directory", metavar="DATA_DIR", type=Path, help="what --data-dir was")
    inspect.add_argument(
        "--records", type=_number, default=10, metavar="N", help="so many records of the log, the newest (default 10)"
    )
    inspect.add_argument(
        "--from", dest="start", type=_number, metavar="OFFSET", help="the records from this log offset on, instead"
    )
    inspect.add_argument("--json", action="store_true", help="for programs: one JSON document")
    inspect.set_defaults(run="inspect:run")


def _add_detach(commands: Commands) -> None:
    detach = commands.add_parser("detach", help="take out of a database what we put into it")
    detach.add_argument("--source", required=True, metavar="URL", help=_DATABASE)
    detach.add_argument("--json", action="store_true", help="for programs: a JSON list of what was removed")
    detach.set_defaults(run="detach:run")


def _server_options(parser: argparse.ArgumentParser, *, source: bool) -> None:
    if source:
        _source_options(parser)
    else:
        _runner_options(parser)
    parser.add_argument("--host", default="127.0.0.1", help="loopback only, for now")
    parser.add_argument("--allow-host", action="append", default=[], metavar="NAME", help=_ALLOW_HOST)
    parser.add_argument("--allow-origin", action="append", default=[], metavar="ORIGIN", help=_ALLOW_ORIGIN)
    parser.add_argument("--port", type=_port, default=8080, help="0 takes a free one (default 8080)")
    parser.add_argument("--by-key-rows", type=_number, metavar="N", help=_BY_KEY_ROWS)


def _source_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--source", required=True, metavar="URL", help=_SOURCES)
    _runner_options(parser)


def _runner_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--runner", choices=("spark", "inline"), default="spark", help="where the pipeline runs (default spark)"
    )
    parser.add_argument("--master", help="a Spark master (default: local, with a slot per cell and four more)")
    parser.add_argument(
        "--cells", default="1x1", metavar="QxW", help="query partitions x write partitions (default 1x1)"
    )
    parser.add_argument(
        "--epoch", type=_seconds, default=60.0, metavar="S", help="seconds an epoch lasts (default 60; 0: micro-batch)"
    )
    parser.add_argument("--data-dir", type=Path, help="where the log and the state live")


def _number(text: str) -> int:
    return _within(int(text), math.inf)


def _port(text: str) -> int:
    return _within(int(text), 65535)


def _seconds(text: str) -> float:
    return _within(float(text), math.inf)


def _within(number: N, most: float) -> N:
    if not 0 <= number <= most:
        raise argparse.ArgumentTypeError(
            f"expected a number from 0{f' to {most}' if most < math.inf else ''}, found {number}"
        )
    return number


if __name__ == "__main__":
    sys.exit(main())
