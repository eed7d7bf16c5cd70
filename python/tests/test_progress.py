"""Progress is a line in a terminal, a display in a notebook, and nothing elsewhere."""

from __future__ import annotations

import io
import sys
import types
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import drillcore
from drillcore.showing import progress

BATCHES = [pa.table({"id": range(first, first + 1_000)}) for first in range(0, 5_000, 1_000)]


class Terminal(io.StringIO):
    """A standard error that is a terminal."""

    def isatty(self) -> bool:
        return True


def everything(database: drillcore.Database, folder: Path) -> None:
    table = database.create_table("t", {"id": "int64", "s": "string"}, key="id", set="s", set_index=False)
    assert table.load(iter(BATCHES), commit_rows=1_000, progress=True).rows == 5_000
    assert table.scan().to_parquet(folder / "t.parquet", progress=True) == 5_000
    database.flush()
    table.index_all_sets(wait=True, progress=True)
    database.compact(progress=True)
    assert database.verify(progress=True).rows == 5_000


def test_a_terminal_shows_lines_that_go_at_the_end(
    database: drillcore.Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr(progress, "_INTERVAL_SECONDS", 0.0)
    everything(database, tmp_path)
    shown = terminal.getvalue()
    assert "\rload t: 5,000 rows, " in shown
    assert "\rto_parquet: 5,000 rows, " in shown
    for what in ("index sets", "compact", "verify"):
        assert f"\r{what}: 0." in shown
    assert "\n" not in shown
    assert shown.rstrip(" \r") != shown, "the last line is wiped"


def test_a_notebook_updates_one_display_for_each_call(
    database: drillcore.Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown: list[list[str]] = []

    class ZMQInteractiveShell:
        """Named as that of notebooks is."""

    class Handle:
        def update(self, data: dict[str, str], raw: bool) -> None:
            shown[-1].append(data["text/plain"])

    def display(data: dict[str, str], **_options: Any) -> Handle:
        shown.append([data["text/plain"]])
        return Handle()

    package, module = types.ModuleType("IPython"), types.ModuleType("IPython.display")
    package.get_ipython = ZMQInteractiveShell  # type: ignore[attr-defined]
    module.display = display  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "IPython", package)
    monkeypatch.setitem(sys.modules, "IPython.display", module)
    monkeypatch.setattr(progress, "_INTERVAL_SECONDS", 0.0)
    everything(database, tmp_path)
    assert shown[0][0].startswith("load t: ")
    assert [texts[-1] for texts in shown] == [""] * len(shown)
    assert len(shown[0]) == 6


def test_nothing_is_shown_elsewhere_or_unasked(
    database: drillcore.Database, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    everything(database, tmp_path)
    assert capfd.readouterr() == ("", "")


def test_a_function_hears_which_share_of_the_work_is_done(
    database: drillcore.Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "_INTERVAL_SECONDS", 0.0)
    heard: set[str] = set()
    # Where the processor is busy elsewhere, the thread that asks may come too late: then there is another turn.
    for turn in range(10):
        name = f"t{turn}"
        table = database.create_table(name, {"id": "int64", "s": "string"}, key="id", set="s", set_index=False)
        for part in range(2):
            table.append(pa.table({"id": range(part, 600_000, 2), "s": [f"s{i % 50}" for i in range(300_000)]}))
            database.flush()
        calls: dict[str, Callable[..., object]] = {
            "index sets": partial(table.index_all_sets, wait=True),
            "compact": database.compact,
            "verify": database.verify,
        }
        for what, call in calls.items():
            shares: list[float] = []
            call(progress=shares.append)
            assert shares == sorted(shares) and shares[-1] == 1.0, what
            if any(0 < share < 1 for share in shares):
                heard.add(what)
        if heard == set(calls):
            return
        database.drop_table(name)
    raise AssertionError(f"only of {heard} was anything heard on its way")


def test_what_a_function_of_the_share_raises_is_raised_once_the_work_is_done(database: drillcore.Database) -> None:
    table = database.create_table("t", {"id": "int64"}, key="id")
    for first in (0, 1):
        table.append(pa.table({"id": range(first, 1_000, 2)}))
        database.flush()

    def fail(share: float) -> None:
        raise RuntimeError(f"heard of {share}")

    with pytest.raises(RuntimeError, match="heard of"):
        database.compact(progress=fail)
    assert table.stats()["segments"] == 1


def test_a_terminal_shows_the_share_that_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    progress.ProgressLine("compact").tick(0.379)
    assert terminal.getvalue().startswith("\rcompact: 37 %, 0.")


def test_what_is_no_progress_is_refused_before_anything_is_done(database: drillcore.Database) -> None:
    table = database.create_table("t", {"id": "int64", "s": "string"}, key="id", set="s", set_index=False)
    calls: list[Any] = [database.compact, database.verify, table.index_all_sets]
    for call in calls:
        with pytest.raises(
            drillcore.InvalidTypeError, match="progress: expected True, False or a function of the share"
        ):
            call(progress=7)
    with pytest.raises(drillcore.InvalidTypeError, match="progress"):
        table.index_sets("a", progress=7)  # type: ignore[arg-type]
    assert table.stats()["indexed_sets"]["exceptions"] == 0
    with pytest.raises(drillcore.InvalidTypeError, match="progress: expected True, False or a function"):
        table.load(iter(BATCHES), progress=7)  # type: ignore[arg-type]


@pytest.mark.parametrize("error", [ZeroDivisionError("mine"), OSError("mine")], ids=repr)
@pytest.mark.parametrize("verb", ["to_parquet", "to_csv", "to_ipc"])
def test_what_a_function_raises_while_a_file_is_written_comes_out_as_it_is(
    database: drillcore.Database, tmp_path: Path, verb: str, error: Exception
) -> None:
    def fail(rows: int) -> None:
        raise error

    table = database.create_table("t", {"id": "int64"}, key="id")
    table.append([{"id": 1}])
    with pytest.raises(type(error), match="mine") as caught:
        getattr(table.scan(), verb)(tmp_path / "file", progress=fail)
    assert caught.value is error
    assert not list(tmp_path.glob("*file*"))
