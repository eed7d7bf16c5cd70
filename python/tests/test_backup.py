"""Backups and restored databases, in Python and in the shell."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import drillcore

COMMAND = [sys.executable, "-m", "drillcore"]


def filled(path: Path, rows: int = 1000) -> drillcore.Database:
    db = drillcore.open(path)
    t = db.create_table("t", {"id": "int64", "group": "string"}, key="id", set="group")
    t.append([{"id": i, "group": "ab"[i % 2]} for i in range(rows)])
    return db


def command(*arguments: object) -> tuple[int, str]:
    done = subprocess.run([*COMMAND, *map(str, arguments)], capture_output=True, text=True, timeout=100)
    return done.returncode, (done.stdout + done.stderr).strip()


def test_a_backup_is_read_restored_and_brought_up_to_date(tmp_path: Path) -> None:
    with filled(tmp_path / "db") as db:
        t = db.table("t")
        db.flush()
        drawn = db.snapshot("named").table("t").sample(5, seed=1).arrow()
        first = db.backup(tmp_path / "backup")
        assert first.lsn == db.snapshot().lsn
        assert (first.files, first.new_files, first.linked_bytes, first.copied_bytes) == (1, 1, first.bytes, 0)
        t.append([{"id": i, "group": "c"} for i in range(10)])
        later = db.backup(tmp_path / "backup")
        assert (later.files, later.new_files) == (2, 1)
        copied = db.backup(tmp_path / "full", copy=True)
        assert (copied.new_files, copied.copied_bytes) == (2, later.bytes)
        t.truncate()
    segments = list((tmp_path / "full").glob("segment-*"))
    assert [os.stat(each).st_nlink for each in segments] == [1, 1]
    with drillcore.open(tmp_path / "backup", read_only=True) as backup:
        assert len(backup.table("t")) == 1010
    assert drillcore.restore(tmp_path / "backup", tmp_path / "again").lsn == later.lsn
    with drillcore.open(tmp_path / "again") as again:
        assert again.table("t").count(set="c") == 10
        assert again.snapshot("named").table("t").sample(5, seed=1).arrow().equals(drawn)
        again.verify()


def test_refusals_say_what_is_wrong_and_change_nothing(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    with filled(tmp_path / "db") as db, filled(tmp_path / "other") as other:
        for path in ("folder", "other", "db"):
            with pytest.raises(drillcore.AlreadyExistsError, match="not a backup"):
                db.backup(tmp_path / path)
        other.backup(tmp_path / "of other")
        with pytest.raises(drillcore.InvalidArgumentError, match=r"cannot back up to .*/of other: .*another database"):
            db.backup(tmp_path / "of other")
        with pytest.raises(drillcore.InvalidTypeError, match="path"):
            db.backup(3)  # type: ignore[arg-type]
        with pytest.raises(drillcore.AlreadyExistsError):
            drillcore.restore(tmp_path / "of other", tmp_path / "db")
        with pytest.raises(drillcore.InvalidArgumentError, match=r"/db\" is a database, not a backup; run backup"):
            drillcore.restore(tmp_path / "db", tmp_path / "new")
        with pytest.raises(drillcore.NotFoundError):
            drillcore.restore(tmp_path / "nowhere", tmp_path / "new")
        db.backup(tmp_path / "backup")
        with drillcore.open(tmp_path / "db", read_only=True) as reader:
            with pytest.raises(drillcore.ReadOnlyError, match=r"cannot back up to .*/backup: .*new"):
                reader.backup(tmp_path / "backup")
            assert reader.backup(tmp_path / "by reader").files == 1
        drillcore.open(tmp_path / "backup").close()
        with pytest.raises(drillcore.AlreadyExistsError, match="opened for writing"):
            db.backup(tmp_path / "backup")
    assert not (tmp_path / "new").exists()
    assert not list(tmp_path.glob("*.unfinished"))


def test_the_command_backs_up_and_restores_also_beside_a_writer(tmp_path: Path) -> None:
    path = tmp_path / "db"
    db = filled(path)
    code, said = command("backup", path, tmp_path / "live")
    assert code == 0 and said.startswith(f"backup of commit 1 in {tmp_path}/live: "), said
    assert command("count", tmp_path / "live", "t") == (0, "1000")
    db.close()
    assert command("backup", path, tmp_path / "backup", "--copy")[0] == 0
    code, said = command("backup", path, tmp_path / "backup")
    assert code == 0 and " 0 new files" in said, said
    assert command("restore", tmp_path / "backup", tmp_path / "again")[0] == 0
    assert command("count", tmp_path / "again", "t") == (0, "1000")
    for arguments in (("backup", path, tmp_path), ("restore", path, tmp_path / "new"), ("restore", path, path)):
        code, said = command(*arguments)
        assert code in (2, 3) and said.startswith("drillcore: "), said


def test_a_backup_that_is_killed_leaves_the_earlier_one_or_the_later_one(tmp_path: Path) -> None:
    path, backup = tmp_path / "db", tmp_path / "backup"
    with filled(path, 20_000) as db:
        db.flush()
    for round in range(6):
        done = [entry for entry in (backup,) if entry.exists()]
        child = subprocess.Popen([*COMMAND, "backup", str(path), str(backup), "--copy"], stdout=subprocess.DEVNULL)
        time.sleep(0.05 + 0.12 * round)
        child.send_signal(signal.SIGKILL)
        child.wait()
        if not backup.exists():
            assert not done
            continue
        with drillcore.open(backup, read_only=True) as found:
            found.verify()
            assert len(found.table("t")) >= 20_000
        with drillcore.open(path) as db:
            db.table("t").append([{"id": -round, "group": "k"}])
            db.compact()
    assert command("backup", path, backup)[0] == 0
    with drillcore.open(path, read_only=True) as db, drillcore.open(backup, read_only=True) as found:
        assert len(found.table("t")) == len(db.table("t"))
    assert not list(tmp_path.glob("*.unfinished"))


def test_backups_beside_threads_that_append_are_prefixes(tmp_path: Path) -> None:
    with filled(tmp_path / "db", 10) as db:
        ends = threading.Event()

        def append() -> None:
            number = 10
            while not ends.is_set():
                db.append({"t": [{"id": number, "group": "x"}]})
                number += 1

        threads = [threading.Thread(target=append)]
        for thread in threads:
            thread.start()
        try:
            for _ in range(5):
                lsn = db.backup(tmp_path / "backup").lsn
                with drillcore.open(tmp_path / "backup", read_only=True) as backup:
                    ids = backup.table("t").scan(columns=["id"]).arrow()["id"].to_pylist()
                assert ids == list(range(9 + lsn))
        finally:
            ends.set()
            for thread in threads:
                thread.join()
