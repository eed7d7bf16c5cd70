"""A collection: a directory of databases with one schema, of which a manifest names those that count.

``manifest-00000000000000000007.json`` is the collection as of its 7th commit, and the newest is the one that counts. It
is written whole under another name first and then created under its own, which fails if the name is taken. So of two
commits at once one comes after the other, and a reader sees all of a commit or nothing. Databases that no manifest
names are never read.
"""

from __future__ import annotations

import base64
import contextlib
import fcntl
import json
import os
import re
import secrets
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import IO, Any

import pyarrow as pa

from drillcore.arguments.names import in_quotes, listed, shown
from drillcore.arrow.type_names import type_name
from drillcore.database import Database
from drillcore.errors import AlreadyExistsError, CorruptError, InvalidArgumentError, StorageError, UnsupportedError
from drillcore.table import Table

FORMAT = 1
JOBS = "jobs"
"""The directory, in that of the collection, with a directory per writing job."""
_JOB_BYTES = 8
_JOB = re.compile(f"[0-9a-f]{{{2 * _JOB_BYTES}}}")
"""The name of a job."""

_PREFIX, _SUFFIX = "manifest-", ".json"
_DIGITS = 20
_KEPT = 10
"""Manifests that stay, so that a reader that has listed them finds the newest still there."""
_TRIES = 50
"""How often something is made again that another process removed at once."""
_DRAFT = ".draft-"


@dataclass(frozen=True)
class Shape:
    """What all databases of a collection have in common: the name and the shape of their one table."""

    table: str
    schema: pa.Schema
    key: list[str]
    set: str | None
    merge: str
    weights: list[str]

    def create(self, database: Database) -> Table:
        """Create the table in a database."""
        return database.create_table(
            self.table, self.schema, key=self.key, merge=self.merge, set=self.set, weights=self.weights
        )

    def difference(self, other: Shape) -> str | None:
        """Return how ``other`` differs, in words; ``None`` if it does not."""
        for name in ("table", "key", "set", "merge", "weights"):
            own, others = getattr(self, name), getattr(other, name)
            if own != others:
                return f"{name} is {shown(own)} in the collection and {shown(others)} here"
        return schema_difference(self.schema, other.schema, "the collection", "the frame")


@dataclass(frozen=True)
class Member:
    """A database of a collection: its directory, from the directory on, and its rows when it was written."""

    path: str
    rows: int


@dataclass(frozen=True)
class Collection:
    """A collection as of one commit."""

    version: int
    shape: Shape
    members: list[Member]
    jobs: list[str]
    """The jobs that were committed, of which the members are."""

    def with_job(self, job: str, members: list[Member]) -> Collection:
        """Return the next version, with the databases of one more job."""
        return replace(self, version=self.version + 1, members=[*self.members, *members], jobs=[*self.jobs, job])


class Manifests:
    """The manifests of a directory. Another store needs the same three: list, read, and create unless it is there."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def versions(self) -> list[int]:
        """Return the versions that are there, in rising order; none if there is no such directory."""
        try:
            names = os.listdir(self.folder)
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            raise StorageError(f"cannot list {in_quotes(self.folder)}: {error.strerror}") from None
        digits = [
            name[len(_PREFIX) : -len(_SUFFIX)] for name in names if name.startswith(_PREFIX) and name.endswith(_SUFFIX)
        ]
        return sorted(int(each) for each in digits if len(each) == _DIGITS and each.isdecimal())

    def read(self, version: int) -> str:
        """Return the text of a version."""
        with open(self._path(version), encoding="utf-8") as file:
            return file.read()

    def create(self, version: int, text: str) -> bool:
        """Create a version with all of its text, and return whether it was not there before."""
        for tried in range(_TRIES):
            try:
                return self._create(version, text)
            except FileNotFoundError as error:
                # A sweep took the draft for one that was left.
                if tried == _TRIES - 1 or not os.path.isdir(self.folder):
                    raise StorageError(f"cannot write to {in_quotes(self.folder)}: {error.strerror}") from None
            except OSError as error:
                raise StorageError(f"cannot write to {in_quotes(self.folder)}: {error.strerror}") from None
        return False

    def _create(self, version: int, text: str) -> bool:
        draft = os.path.join(self.folder, f"{_DRAFT}{secrets.token_hex(8)}")
        try:
            with open(draft, "x", encoding="utf-8") as file:
                fcntl.flock(file, fcntl.LOCK_EX)  # A sweep leaves it.
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
                try:
                    # Unlike a rename, a link fails where the name is taken.
                    os.link(draft, self._path(version))
                except FileExistsError:
                    return False
            _sync_folder(self.folder)
            return True
        finally:
            with contextlib.suppress(OSError):
                os.unlink(draft)

    def remove(self, version: int) -> None:
        """Remove a version, if it is there."""
        with contextlib.suppress(OSError):
            os.unlink(self._path(version))

    def _path(self, version: int) -> str:
        return os.path.join(self.folder, f"{_PREFIX}{version:0{_DIGITS}}{_SUFFIX}")


def read_collection(folder: str) -> Collection | None:
    """Return the newest version of the collection in a directory; ``None`` if it is none.

    Raises
    ------
    CorruptError
        If the manifest is damaged.
    UnsupportedError
        If a later version of Drillcore wrote it.
    """
    manifests = Manifests(folder)
    while versions := manifests.versions():
        try:
            return _parse(folder, versions[-1], manifests.read(versions[-1]))
        except FileNotFoundError:
            continue  # Ten commits came between the two calls.
    return None


def commit_job(folder: str, shape: Shape, job: str, members: list[Member]) -> Collection:
    """Add the databases of a job to the collection in a directory, all in one step, and return its new version.

    A job that was added before is not added again.

    Raises
    ------
    AlreadyExistsError
        If another job made the directory a collection of another shape meanwhile.
    """
    manifests = Manifests(folder)
    while True:
        newest = read_collection(folder)
        if newest is not None and job in newest.jobs:
            return newest
        if newest is not None and (difference := newest.shape.difference(shape)) is not None:
            raise AlreadyExistsError(
                f"{in_quotes(folder)} became a collection of another shape meanwhile: {difference}"
            )
        begun = newest or Collection(0, shape, [], [])
        made = begun.with_job(job, members)
        if manifests.create(made.version, _text(made)):
            for version in manifests.versions()[:-_KEPT]:
                manifests.remove(version)
            return made


def job_folder(folder: str, job: str) -> str:
    """Return the directory with the databases of a job, from that of the collection on."""
    return os.path.join(folder, JOBS, job)


class Job:
    """A job that is being written. A mark in its directory is locked for as long as the process that began it lives."""

    def __init__(self, folder: str, name: str, mark: IO[str]) -> None:
        self.folder = folder
        self.name = name
        self._mark = mark

    def commit(self, shape: Shape, members: list[Member]) -> Collection:
        """Make the databases of the job part of the collection, in one step, and remove its others.

        Raises
        ------
        AlreadyExistsError
            If another job made the directory a collection of another shape meanwhile.
        """
        # A manifest must not survive a power loss that the names of its databases do not.
        for each in (job_folder(self.folder, self.name), os.path.join(self.folder, JOBS), self.folder):
            with contextlib.suppress(OSError):
                _sync_folder(each)
        collection = commit_job(self.folder, shape, self.name, members)
        # With what attempts of the latest jobs left that were killed after their commit.
        remove_duplicates(self.folder, collection, collection.jobs[-_KEPT:])
        self.close()
        return collection

    def abort(self) -> None:
        """Remove what the job wrote, unless it was committed."""
        remove_job(self.folder, self.name)
        self.close()

    def close(self) -> None:
        """Unlock the mark: if the job did not end, it is to be swept."""
        self._mark.close()


def begin_job(folder: str) -> Job:
    """Make the directory of a new job, with a mark that is there until it ends.

    Raises
    ------
    StorageError
        If the directory cannot be written to.
    """
    for tried in range(_TRIES):
        job = secrets.token_hex(_JOB_BYTES)
        try:
            os.makedirs(job_folder(folder, job))
        except FileNotFoundError as error:
            # Another job that ended removed the directories above in between, while they were empty.
            if tried == _TRIES - 1:
                raise StorageError(f"cannot write to {in_quotes(folder)}: {error.strerror}") from None
            continue
        except OSError as error:
            raise StorageError(f"cannot write to {in_quotes(folder)}: {error.strerror}") from None
        mark = _hold(_mark(folder, job))
        if mark is not None:
            # A sweep that came in between took it for one that was left, and removed it.
            with contextlib.suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(mark.fileno()), os.stat(_mark(folder, job))):
                    return Job(folder, job, mark)
            mark.close()
    raise StorageError(
        f"cannot write to {in_quotes(folder)}: files in it cannot be locked, or another process removes them"
    )


def is_running(folder: str, job: str) -> bool:
    """Whether a job has neither been committed nor aborted, so that a database of it can still count."""
    return os.path.exists(_mark(folder, job))


def remove_job(folder: str, job: str) -> None:
    """Remove all databases of a job, unless it was committed, and the directories that are empty then.

    Attempts that still run find the mark gone, and remove their own.
    """
    collection = read_collection(folder)
    if collection is not None and job in collection.jobs:
        return  # Its commit failed after the step that counts.
    with contextlib.suppress(OSError):
        os.unlink(_mark(folder, job))
    shutil.rmtree(job_folder(folder, job), ignore_errors=True)
    _remove_empty(folder, job)


def remove_attempt(folder: str, job: str, directory: str) -> None:
    """Remove the database of one attempt, and the directories that are empty then, if the job has ended."""
    shutil.rmtree(directory, ignore_errors=True)
    if not is_running(folder, job):
        _remove_empty(folder, job)


def remove_duplicates(folder: str, collection: Collection, jobs: Sequence[str]) -> None:
    """Remove the databases of committed jobs that do not count: those of attempts that failed or came second."""
    counted = {os.path.normpath(os.path.join(folder, member.path)) for member in collection.members}
    for job in jobs:
        with contextlib.suppress(OSError):
            os.unlink(_mark(folder, job))
        of_job = job_folder(folder, job)
        with contextlib.suppress(OSError):
            for name in os.listdir(of_job):
                if os.path.normpath(os.path.join(of_job, name)) not in counted:
                    shutil.rmtree(os.path.join(of_job, name), ignore_errors=True)
            os.rmdir(of_job)  # if it is empty


def sweep(folder: str) -> None:
    """Remove what jobs left in a collection whose driver ended before they did.

    Other jobs may be writing to it: their drivers hold them.

    Examples
    --------
    >>> drillcore.spark.sweep("flights")  # doctest: +SKIP
    """
    for job in _jobs(folder):
        if _JOB.fullmatch(job):
            _sweep_job(folder, job)
    collection = read_collection(folder)
    if collection is not None:
        remove_duplicates(folder, collection, collection.jobs)
    with contextlib.suppress(OSError):
        for name in os.listdir(folder):
            if name.startswith(_DRAFT) and (held := _hold(os.path.join(folder, name))) is not None:
                with held:
                    os.unlink(os.path.join(folder, name))


def _sweep_job(folder: str, job: str) -> None:
    held = _hold(_mark(folder, job))
    if held is None:
        return  # Its driver lives.
    with held:
        # Read now: its driver, if there was one, has ended or has committed it.
        collection = read_collection(folder)
        if collection is None or job not in collection.jobs:
            shutil.rmtree(job_folder(folder, job), ignore_errors=True)


def _hold(path: str) -> IO[str] | None:
    """Lock a file, which is made if it is missing; ``None`` if a process holds it, or it cannot be tried."""
    try:
        file = open(path, "a", encoding="utf-8")  # noqa: SIM115  # it is locked until it is closed
    except OSError:
        return None
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        file.close()
        return None
    return file


def _remove_empty(folder: str, job: str) -> None:
    for each in (job_folder(folder, job), os.path.join(folder, JOBS), folder):
        with contextlib.suppress(OSError):
            os.rmdir(each)


def _mark(folder: str, job: str) -> str:
    return os.path.join(job_folder(folder, job), "running")


def check_folder(folder: str) -> None:
    """Check that a directory can become a collection: it is missing or empty.

    Raises
    ------
    InvalidArgumentError
        If something else is there.
    """
    above = os.path.dirname(os.path.abspath(folder))
    while above != os.path.dirname(above):
        # A sweep of a collection would remove what lies among its jobs.
        if what := "database" if _is_database(above) else "collection" if _is_collection(above) else None:
            raise InvalidArgumentError(
                f"path: {in_quotes(folder)} lies in the {what} {in_quotes(above)}; give a directory beside it"
            )
        above = os.path.dirname(above)
    try:
        # A job that failed may have left its databases; another may be writing its own.
        found = [name for name in os.listdir(folder) if name != JOBS and not name.startswith(_DRAFT)]
        found += [os.path.join(JOBS, name) for name in _jobs(folder) if not _JOB.fullmatch(name)]
    except FileNotFoundError:
        return
    except NotADirectoryError:
        raise InvalidArgumentError(f"path: {in_quotes(folder)} is a file; give a directory") from None
    except OSError as error:
        raise StorageError(f"cannot list {in_quotes(folder)}: {error.strerror}") from None
    if found:
        what = "is a database" if "LOCK" in found else f"has {listed(sorted(found)[:3])}"
        raise InvalidArgumentError(
            f"path: {in_quotes(folder)} {what} and is not a collection; give a new or empty directory, or a collection"
        )


def _jobs(folder: str) -> list[str]:
    """What lies in the directory of the jobs."""
    with contextlib.suppress(OSError):
        return os.listdir(os.path.join(folder, JOBS))
    return []


def _is_collection(folder: str) -> bool:
    """Whether a directory is a collection, or the first job of one is being written to it."""
    if any(_JOB.fullmatch(job) and os.path.exists(_mark(folder, job)) for job in _jobs(folder)):
        return True
    with contextlib.suppress(StorageError):
        return bool(Manifests(folder).versions())
    return False


def _is_database(folder: str) -> bool:
    with contextlib.suppress(OSError):
        names = os.listdir(folder)
        return "LOCK" in names and any(name.startswith(_PREFIX) and name.endswith(".log") for name in names)
    return False


def schema_difference(one: pa.Schema, other: pa.Schema, name: str, others: str) -> str | None:
    """Return the first difference of two schemas in words; ``None`` if they have the same columns, in any order."""
    for field in one:
        if field.name not in other.names:
            return f'column "{field.name}" is in {name} and not in {others}'
        kind = other.field(field.name).type
        if kind != field.type:
            return f'column "{field.name}" has type {type_name(field.type)} in {name} and {type_name(kind)} in {others}'
    for field in other:
        if field.name not in one.names:
            return f'column "{field.name}" is in {others} and not in {name}'
    return None


def _text(collection: Collection) -> str:
    shape = collection.shape
    return json.dumps(
        {
            "format": FORMAT,
            "version": collection.version,
            "table": shape.table,
            "schema": base64.b64encode(shape.schema.serialize().to_pybytes()).decode(),
            "key": shape.key,
            "set": shape.set,
            "merge": shape.merge,
            "weights": shape.weights,
            "jobs": collection.jobs,
            "databases": [{"path": member.path, "rows": member.rows} for member in collection.members],
        }
    )


def _parse(folder: str, version: int, text: str) -> Collection:
    try:
        found: dict[str, Any] = json.loads(text)
        if found["format"] != FORMAT:
            raise UnsupportedError(
                f"{in_quotes(folder)}: the manifest of version {version} has format {found['format']}, and this "
                f"version of drillcore reads {FORMAT}; install a later one"
            )
        schema = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(found["schema"])))
        shape = Shape(found["table"], schema, found["key"], found["set"], found["merge"], found["weights"])
        members = [Member(each["path"], each["rows"]) for each in found["databases"]]
        return Collection(found["version"], shape, members, found["jobs"])
    except (ValueError, KeyError, TypeError, pa.ArrowException) as error:
        raise CorruptError(f"{in_quotes(folder)}: the manifest of version {version} is damaged: {error}") from None


def _sync_folder(folder: str) -> None:
    """Have the names in a directory survive power loss."""
    opened = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
