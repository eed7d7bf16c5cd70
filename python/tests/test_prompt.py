"""The command in a terminal: the prompt of ``drillcore sql``, and what ``scan`` prints there."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path
from typing import Any

import pytest

import drillcore

LIMIT_S = 30
CURSOR_QUESTION = b"\x1b[6n"
SEQUENCE = re.compile(r"\x1b(\[[0-9;?>]*[A-Za-z]|[=>78])")
COMMAND = [sys.executable, "-m", "drillcore"]


class Terminal:
    """A program in a terminal of its own, with what it has printed since it was asked last."""

    def __init__(
        self, arguments: list[str], folder: Path, columns: int = 80, pager: str = "", hang_up: Any = signal.SIG_DFL
    ) -> None:
        self.process, self.file = pty.fork()
        if self.process == 0:
            signal.signal(signal.SIGHUP, hang_up)
            os.chdir(folder)
            os.environ.update(TERM="xterm-256color", XDG_STATE_HOME=str(folder / "state"), PAGER=pager)
            os.execv(COMMAND[0], [*COMMAND, *arguments])
        fcntl.ioctl(self.file, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
        self.printed = b""

    def _read(self, seconds: float) -> bool:
        """Read what there is. False at the end, or if nothing came."""
        if not select.select([self.file], [], [], seconds)[0]:
            return False
        try:
            data = os.read(self.file, 65536)
        except OSError:  # the other end is closed
            return False
        # As a terminal does that is asked where its cursor is.
        os.write(self.file, b"\x1b[1;1R" * data.count(CURSOR_QUESTION))
        self.printed += data
        return bool(data)

    def until(self, pattern: str) -> str:
        """What is printed up to a pattern, without colors and moves of the cursor."""
        end = time.monotonic() + LIMIT_S
        while True:
            text = SEQUENCE.sub("", self.printed.decode(errors="replace")).replace("\r", "")
            if re.search(pattern, text):
                self.printed = b""
                return text
            assert time.monotonic() < end, f"no {pattern!r} in {text!r}"
            self._read(0.1)

    def type(self, keys: str) -> None:
        os.write(self.file, keys.encode())

    def ask(self, line: str, pattern: str) -> str:
        """Type a line, and wait for what it prints and for the prompt behind it."""
        self.type(line + "\r")
        return self.until(f"(?s){pattern}.*db> $")

    def close(self) -> int:
        """Close the window that it is in, and return how the program ended."""
        os.close(self.file)
        end = time.monotonic() + LIMIT_S
        while True:
            process, status = os.waitpid(self.process, os.WNOHANG)
            if process:
                return os.waitstatus_to_exitcode(status)
            assert time.monotonic() < end, "it does not end"
            time.sleep(0.05)

    def exit_code(self) -> int:
        end = time.monotonic() + LIMIT_S
        while True:
            process, status = os.waitpid(self.process, os.WNOHANG)
            if process:
                os.close(self.file)
                return os.waitstatus_to_exitcode(status)
            assert time.monotonic() < end, "it does not end"
            self._read(0.05)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    with drillcore.open(tmp_path / "db") as db:
        flights = db.create_table("flights", {"id": "int64", "carrier": "string", "note": "string"}, key="id")
        flights.append([{"id": i, "carrier": ["UA", "DL"][i % 2], "note": "n" * 70} for i in range(3000)])
    return tmp_path


@pytest.fixture
def prompt(folder: Path) -> Terminal:
    terminal = Terminal(["sql", "db"], folder)
    terminal.until("db> $")
    return terminal


def test_a_query_over_several_lines_prints_a_table_and_its_time(prompt: Terminal) -> None:
    prompt.type("select carrier,\r")
    prompt.until("-> $")
    shown = prompt.ask("count(*) as n from flights group by 1 order by 1;", r"2 rows, \d+\.\d{3} s")
    assert "| DL      | 1500 |\n| UA      | 1500 |\n" in shown
    assert "error: unknown table" in prompt.ask("select * from flihgts;", "flights")
    assert "| id      | int64  |" in prompt.ask("\\d flights", "note")
    assert "| flights | append | id" in prompt.ask("\\d", "rows")
    assert "error: unknown command" in prompt.ask("\\y", "\\\\\\?")
    prompt.type("\x04")
    assert prompt.exit_code() == 0


@pytest.mark.parametrize(("hang_up", "code"), [(signal.SIG_DFL, -signal.SIGHUP), (signal.SIG_IGN, 129)])
def test_a_prompt_ends_with_its_terminal_also_where_the_signal_is_ignored(
    folder: Path, hang_up: Any, code: int
) -> None:
    prompt = Terminal(["sql", "db"], folder, hang_up=hang_up)
    prompt.until("db> $")
    assert prompt.close() == code


def test_a_result_fits_the_terminal_and_a_long_one_stops(prompt: Terminal) -> None:
    shown = prompt.ask("select * from flights;", "the first 1,000 rows")
    rows = [line for line in shown.splitlines() if line.startswith(("|", "+"))]
    assert len(rows) == 1000 + 4
    assert {len(row) for row in rows} == {80}
    assert all("…" in row for row in rows if "UA" in row)
    shown = prompt.ask("\\x on", "shown vertically")
    shown = prompt.ask("select id, carrier from flights limit 1;", "1 row,")
    assert re.search(r"-\[ row 1 \]-+\nid      \| 0\ncarrier \| UA\n", shown)
    prompt.type("exit\r")
    assert prompt.exit_code() == 0


def test_a_result_longer_than_the_screen_goes_through_the_pager(folder: Path) -> None:
    prompt = Terminal(["sql", "db"], folder, pager="sed 's/^/page: /'")
    prompt.until("db> $")
    assert "page: | 49 |" in prompt.ask("select id from flights limit 50;", "50 rows,")
    assert "page:" not in prompt.ask("select id from flights limit 5;", "5 rows,")
    prompt.type("\x04")
    assert prompt.exit_code() == 0
    # What cannot be run shows nothing.
    missing = Terminal(["sql", "db"], folder, pager="no-such-pager --option")
    missing.until("db> $")
    assert "\n| 49 |" in missing.ask("select id from flights limit 50;", "50 rows,")
    missing.type("\x04")
    assert missing.exit_code() == 0


def test_ctrl_c_in_the_pager_is_the_pagers(folder: Path) -> None:
    prompt = Terminal(["sql", "db"], folder, pager="cat; exec sleep 60")
    prompt.until("db> $")
    prompt.type("select id from flights limit 50;\r")
    prompt.until(r"\| 49 \|\n")
    prompt.type("\x03")
    prompt.until(r"(?s)50 rows,.*db> $")
    assert "| 3 |" in prompt.ask("select 1 + 2 as n;", "1 row,")
    prompt.type("\x04")
    assert prompt.exit_code() == 0


def test_ctrl_c_stops_the_query_only_and_clears_a_line(prompt: Terminal) -> None:
    prompt.type("select sum(a.id * b.id) as s from flights a, flights b, flights c where a.id + b.id + c.id < 10;\r")
    prompt.until("< 10;")
    time.sleep(1)
    prompt.type("\x03")
    prompt.until("error: interrupted\n(?s:.*)db> $")
    prompt.type("select nonsense")
    prompt.until("nonsense$")
    prompt.type("\x03")
    prompt.until("db> $")
    assert "| 3 |" in prompt.ask("select 1 + 2 as n;", "1 row,")
    prompt.type("\x04")
    assert prompt.exit_code() == 0


def test_names_and_keywords_are_completed(prompt: Terminal) -> None:
    prompt.type("SEL\tcount(*) as n from fli\t")
    prompt.until("SELECT count.*from flights $")
    assert "| 3000 |" in prompt.ask(";", "1 row,")
    prompt.type("select max(flights.car\t")
    prompt.until("flights.carrier $")
    assert "| UA |" in prompt.ask(") as m from flights;", "1 row,")
    prompt.type("\x04")
    assert prompt.exit_code() == 0


def test_statements_are_remembered_in_the_folder_of_the_user(prompt: Terminal, folder: Path) -> None:
    prompt.ask("select 41 + 1 as n;", "42")
    prompt.type("\\q\r")
    assert prompt.exit_code() == 0
    history = folder / "state" / "drillcore" / "sql_history"
    assert history.read_text().startswith("select 41 + 1 as n;\n")
    assert history.parent.stat().st_mode & 0o077 == 0
    again = Terminal(["sql", "db"], folder)
    again.until("db> $")
    again.type("\x1b[A\x1b[A")
    again.until("select 41 .*;$")
    assert "42" in again.ask("", "1 row,")
    again.type("\x04")
    assert again.exit_code() == 0


def test_queries_see_what_a_writer_has_committed_since(prompt: Terminal, folder: Path) -> None:
    count = "select count(*) as n from flights;"
    assert "| 3000 |" in prompt.ask(count, "1 row,")
    with drillcore.open(folder / "db") as db:
        db.table("flights").append([{"id": 9000, "carrier": "AA", "note": None}])
        assert "| 3001 |" in prompt.ask(count, "1 row,")
        db.create_table("new", {"a": "int64"}, key="a")
        prompt.ask("select * from new;", "0 rows,")
        prompt.type("select * from ne\t")
        prompt.until("from new $")
    prompt.type("\x03")
    prompt.until("db> $")
    assert "NULL" in prompt.ask("select note from flights where id = 9000;", "1 row,")
    prompt.type("\x04")
    assert prompt.exit_code() == 0


def test_what_a_value_holds_does_not_move_the_cursor(prompt: Terminal) -> None:
    shown = prompt.ask("select 'a' || chr(27) || '[31m' || chr(10) as t;", "1 row,")
    assert "a\\u{1b}[31m\\n" in shown


def test_a_scan_stops_in_a_terminal_unless_it_is_asked_for_more(folder: Path) -> None:
    def rows(*options: str) -> tuple[int, str]:
        terminal = Terminal(["scan", "db", "flights", "--columns", "id", "--output", "csv", *options], folder)
        shown = terminal.until("(?s)id\n.*\n(2999|only the first 1,000 rows .*)\n$" if not options else "\n1499\n$")
        assert terminal.exit_code() == 0
        return len(re.findall(r"^\d+$", shown, re.MULTILINE)), shown

    count, shown = rows()
    assert count == 1000
    assert "use --limit for more" in shown
    assert rows("--limit", "1500")[0] == 1500
    scan = [*COMMAND, "scan", "db", "flights", "--columns", "id", "--output", "csv"]
    piped = subprocess.run(scan, cwd=folder, capture_output=True, text=True, check=True)
    assert len(piped.stdout.splitlines()) == 1 + 3000
    assert piped.stderr == ""


def test_a_table_is_dropped_once_its_name_was_typed(folder: Path) -> None:
    def answered(answer: str, pattern: str) -> int:
        terminal = Terminal(["drop-table", "db", "flights"], folder)
        terminal.until("Type its name to go on: $")
        terminal.type(answer)
        terminal.until(pattern)
        return terminal.exit_code()

    assert answered("flight\r", '"flight" is not the name of the table; nothing was dropped') == 2
    assert answered("\x03", "interrupted") == 130
    with drillcore.open(folder / "db", read_only=True) as db:
        assert db.tables() == ["flights"]
    assert answered("flights\r", "dropped table flights") == 0
    with drillcore.open(folder / "db", read_only=True) as db:
        assert db.tables() == []
