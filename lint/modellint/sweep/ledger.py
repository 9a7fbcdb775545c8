"""Ledger of a sweep: its rows in one SQLite or Parquet file, complete after every task, and readable by other programs.

Rows are kept in SQLite while a sweep runs, in ``FILE.journal`` where a Parquet file is wanted: that is written at the end, as a whole.
"""

from __future__ import annotations

import contextlib
import json
import os
import platform
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from modellint.results.codec import Codec, Malformed
from modellint.results.sweep_row import SweepRow
from modellint.run import UsageError

PARQUET = ".parquet"
SQLITE = (".sqlite", ".sqlite3", ".db")
SUFFIXES = (PARQUET, *SQLITE)
_FORMAT = 1
"""The number of the format of these files; another one is not read."""
_NESTED = ("blockers", "findings", "changes", "files", "versions")
"""Columns that hold JSON."""
_REALS = ("error", "half_error", "seconds", "cpu", "timeout")
_WHOLE = ("cases", "memory", "parameters", "size", "package")
_COLUMNS = SweepRow._fields
_CODEC: Codec[SweepRow] = Codec(SweepRow)
_PATIENCE = 60.0
"""Seconds that a reader may take."""
_KEY = "target, action, destination, frontend"


class Ledger:
    """The rows of one file, while it is written."""

    def __init__(self, path: Path, journal: Path, connection: sqlite3.Connection) -> None:
        self._path = path
        self._journal = journal
        self._connection = connection

    def rows(self) -> tuple[SweepRow, ...]:
        """All rows, in the order of their keys."""
        return _read(self._connection, self._journal)

    def replace(self, rows: Sequence[SweepRow]) -> None:
        """Put a task's rows in the place of what was known of it; on disk when this returns."""
        with self._connection:
            condition = " AND ".join(f"{name} = ?" for name in _KEY.split(", "))
            self._connection.executemany(f"DELETE FROM rows WHERE {condition}", list({row.key for row in rows}))
            _insert(self._connection, rows)

    def finish(self) -> None:
        """Write the Parquet file, where that is wanted. Raises ``UsageError``."""
        if self._path != self._journal:
            _write_parquet(self._path, self.rows())
            self._connection.close()
            self._journal.unlink()


@contextmanager
def opened(path: Path, resume: bool) -> Iterator[Ledger]:
    """The ledger of a file for one sweep alone; with ``resume`` with the rows that it has.

    Raises ``UsageError`` for a file that is there without ``resume``, is no ledger, or is in use.
    """
    expect(path, resume)
    journal = _journal_of(path)
    earlier = read(path) if path != journal and path.exists() and not journal.exists() else ()
    connection = _connected(journal)
    try:
        _prepare(connection, journal, earlier)
        _claim(connection, journal)
        try:
            yield Ledger(path, journal, connection)
        finally:
            _release(connection)
    finally:
        connection.close()


def expect(path: Path, resume: bool) -> None:
    """Raise ``UsageError`` for a file that is there without ``resume``, and where it could not be written at the end."""
    for place in (_journal_of(path), path):
        if os.path.lexists(place) and not resume:
            raise UsageError(f"{place} exists: --resume goes on with it, or name another file")
    if path.suffix == PARQUET:
        _pyarrow()


def read(path: Path) -> tuple[SweepRow, ...]:
    """The rows of a file; of a sweep that is not at its end those that there are. Raises ``UsageError``."""
    journal = _journal_of(path)
    if path.suffix == PARQUET and not (journal.exists() and not path.exists()):
        if not path.is_file():
            raise UsageError(f"{path}: no such file")
        return _read_parquet(path)
    if not journal.is_file():
        raise UsageError(f"{path}: no such file")
    connection = sqlite3.connect(f"{journal.absolute().as_uri()}?mode=ro", uri=True)
    try:
        return _read(connection, journal)
    except sqlite3.Error as error:
        raise _no_ledger(journal, error) from None
    finally:
        connection.close()


def check_suffix(path: Path, option: str) -> None:
    """Refuse a name that says nothing of the format. Raises ``UsageError``."""
    if path.suffix not in SUFFIXES:
        raise UsageError(f"{option} {path}: the name of a sweep ends in {', '.join(SUFFIXES[:-1])} or {SUFFIXES[-1]}")


def _journal_of(path: Path) -> Path:
    return path.with_name(f"{path.name}.journal") if path.suffix == PARQUET else path


def _no_ledger(path: Path, error: object) -> UsageError:
    return UsageError(f"{path}: not the file of a sweep: {error}")


def _connected(path: Path) -> sqlite3.Connection:
    """A connection that others may read beside; they are waited for."""
    try:
        connection = sqlite3.connect(path, timeout=_PATIENCE)
    except sqlite3.Error as error:
        raise UsageError(f"{path}: cannot be written: {error}") from None
    try:
        connection.execute("BEGIN EXCLUSIVE")
        connection.commit()
    except sqlite3.OperationalError as error:
        connection.close()
        raise UsageError(f"{path}: cannot be written: {error}") from None
    except sqlite3.DatabaseError as error:
        connection.close()
        raise _no_ledger(path, error) from None
    return connection


def _claim(connection: sqlite3.Connection, path: Path) -> None:
    """Enter this process as the one that writes. Raises ``UsageError`` where another one that lives has done so."""
    with connection:
        connection.execute("CREATE TABLE IF NOT EXISTS writer (host TEXT, process INTEGER, began REAL)")
        connection.execute("BEGIN IMMEDIATE")
        for host, process, began in connection.execute("SELECT host, process, began FROM writer").fetchall():
            if _lives(host, process, began):
                raise UsageError(f"{path}: another sweep is writing it, process {process} on {host}")
        connection.execute("DELETE FROM writer")
        connection.execute("INSERT INTO writer VALUES (?, ?, ?)", _this_process())


def _release(connection: sqlite3.Connection) -> None:
    """Leave the file to others; a Parquet file's journal is closed and gone by now."""
    with contextlib.suppress(sqlite3.ProgrammingError), connection:
        connection.execute("DELETE FROM writer")


def _this_process() -> tuple[str, int, float]:
    import psutil

    return platform.node(), os.getpid(), psutil.Process().create_time()


def _lives(host: str, process: int, began: float) -> bool:
    """Whether a process is still there; of those of another machine nothing is known, and a restarted one has another name or time."""
    import psutil

    if host != platform.node():
        return False
    try:
        return abs(float(psutil.Process(process).create_time()) - began) < 1.0
    except psutil.Error:
        return False


def _prepare(connection: sqlite3.Connection, path: Path, earlier: Sequence[SweepRow]) -> None:
    """Make the table, or see that it is ours."""
    (file_format,) = connection.execute("PRAGMA user_version").fetchone()
    names = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    if names:
        _check_format(file_format, names, path)
        return
    kinds = dict.fromkeys(_REALS, "REAL") | dict.fromkeys(_WHOLE, "INTEGER NOT NULL")
    columns = ", ".join(f"{name} {kinds.get(name, 'TEXT NOT NULL')}" for name in _COLUMNS)
    with connection:
        connection.execute(f"CREATE TABLE rows ({columns}, PRIMARY KEY ({_KEY}, route))")
        connection.execute(f"PRAGMA user_version = {_FORMAT}")
        _insert(connection, earlier)


def _check_format(file_format: int, names: Sequence[str], path: Path) -> None:
    if "rows" not in names:
        raise _no_ledger(path, "it has no table of rows")
    if file_format != _FORMAT:
        raise UsageError(
            f"{path}: written by another version of modellint, in format {file_format}; this one has {_FORMAT}"
        )


def _insert(connection: sqlite3.Connection, rows: Sequence[SweepRow]) -> None:
    marks = ", ".join("?" * len(_COLUMNS))
    connection.executemany(
        f"INSERT INTO rows ({', '.join(_COLUMNS)}) VALUES ({marks})", [[*_flat(row).values()] for row in rows]
    )


def _read(connection: sqlite3.Connection, path: Path) -> tuple[SweepRow, ...]:
    (file_format,) = connection.execute("PRAGMA user_version").fetchone()
    names = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    _check_format(file_format, names, path)
    entries = connection.execute(f"SELECT {', '.join(_COLUMNS)} FROM rows ORDER BY {_KEY}, route")
    return tuple(_row(dict(zip(_COLUMNS, entry, strict=True)), path) for entry in entries)


def _flat(row: SweepRow) -> dict[str, Any]:
    """A row as numbers and texts; what is nested is JSON, and numbers that are not finite are what SQLite and Parquet have."""
    values = dict(zip(_COLUMNS, _CODEC.to_json(row), strict=True))
    for name in _REALS:
        values[name] = None if values[name] is None else float(values[name])
    for name in _NESTED:
        values[name] = json.dumps(values[name], ensure_ascii=False, sort_keys=True)
    return values


def _row(values: Mapping[str, Any], path: Path) -> SweepRow:
    fields = {name: json.loads(value) if name in _NESTED else value for name, value in values.items()}
    for name in _REALS:
        if isinstance(fields[name], float) and fields[name] - fields[name] != 0:
            fields[name] = str(fields[name])
    try:
        return _CODEC.from_json([fields[name] for name in _COLUMNS])
    except (Malformed, ValueError) as error:
        raise _no_ledger(path, error) from None


# Parquet


def _pyarrow() -> Any:
    try:
        import pyarrow.parquet
    except ImportError:
        raise UsageError(
            "a Parquet file needs pyarrow: pip install 'modellint[parquet]', or name a .sqlite file"
        ) from None
    return pyarrow


def _write_parquet(path: Path, rows: Sequence[SweepRow]) -> None:
    from modellint.atomic_write import ReplaceError, write_file

    arrow = _pyarrow()
    kinds = dict.fromkeys(_REALS, arrow.float64()) | dict.fromkeys(_WHOLE, arrow.int64())
    schema = arrow.schema(
        [(name, kinds.get(name, arrow.string())) for name in _COLUMNS], metadata={"modellint.sweep": str(_FORMAT)}
    )
    sink = arrow.BufferOutputStream()
    arrow.parquet.write_table(arrow.Table.from_pylist([_flat(row) for row in rows], schema=schema), sink)
    try:
        write_file(path, sink.getvalue().to_pybytes())
    except (ReplaceError, OSError) as error:
        raise UsageError(f"{path}: cannot be written: {error}") from None


def _read_parquet(path: Path) -> tuple[SweepRow, ...]:
    arrow = _pyarrow()
    try:
        table = arrow.parquet.read_table(path)
    except (OSError, arrow.ArrowException) as error:
        raise _no_ledger(path, str(error).partition("\n")[0]) from None
    file_format = (table.schema.metadata or {}).get(b"modellint.sweep", b"").decode()
    if not file_format or set(table.schema.names) != {*_COLUMNS}:
        raise _no_ledger(path, "it has other columns")
    if file_format != str(_FORMAT):
        raise UsageError(
            f"{path}: written by another version of modellint, in format {file_format}; this one has {_FORMAT}"
        )
    return tuple(_row(entry, path) for entry in table.to_pylist())
