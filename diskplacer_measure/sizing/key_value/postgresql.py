#    Licensed under the Apache License, Version 2.0 (the "License"); you may
#    not use this file except in compliance with the License. You may obtain
#    a copy of the License at
#
#         http://www.apache.org/licenses/LICENSE-2.0
#
#    Unless required by applicable law or agreed to in writing, software
#    distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
#    WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
#    License for the specific language governing permissions and limitations
#    under the License.

"""The store that the load runs against: a table of PostgreSQL.

Records are those of YCSB: a key and ten fields of 100 characters. PostgreSQL
reads data from the disk that neither its memory nor the page cache holds, as
Cassandra does in P1; a store that keeps all data in memory would not show the
cost of too little memory.
"""

import collections.abc
import contextlib
import dataclasses
import random
import typing

from diskplacer_measure.sizing import errors

#: Bytes of a record, without the overhead of the store.
RECORD_BYTES = 1000

_TABLE = 'diskplacer_key_value'
_FIELDS = tuple(f'field{number}' for number in range(10))
_FIELD_BYTES = RECORD_BYTES // len(_FIELDS)

_CREATE = (
    f'CREATE TABLE {_TABLE} (key bigint NOT NULL, '
    + ', '.join(f'{field} text NOT NULL' for field in _FIELDS)
    + ')'
)
_COPY = f'COPY {_TABLE} FROM STDIN WITH (FREEZE)'
_READ = f'SELECT {", ".join(_FIELDS)} FROM {_TABLE} WHERE key = %s'  # noqa: S608
_UPDATES = tuple(
    f'UPDATE {_TABLE} SET {field} = %s WHERE key = %s'  # noqa: S608
    for field in _FIELDS
)

# Settings that affect the load: the size of the cache of PostgreSQL, and
# whether an update waits for the disk.
_SETTINGS = ('shared_buffers', 'synchronous_commit')

# Records between two reports of progress.
_REPORTED = 10_000


@dataclasses.dataclass(frozen=True)
class Description:
    """The store, for the file of runs: ``data_bytes`` is with the index."""

    store: str
    settings: dict[str, str]
    records: int
    data_bytes: int


class Store:
    """A connection to the store, for one client."""

    def __init__(self, connection: typing.Any) -> None:
        self._connection = connection

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def fill(
        self,
        records: int,
        progress: collections.abc.Callable[[int], None],
        seed: int = 0,
    ) -> None:
        """Make the table with records 0 to ``records - 1``, or nothing at all.

        A table of an earlier load is replaced.

        :param progress: called with the number of records, now and then.
        :raises SizingError: PostgreSQL refuses, or has no space.
        """
        source = random.Random(seed)  # noqa: S311
        with _errors('fill the table'), self._connection.transaction():
            with self._connection.cursor() as cursor:
                cursor.execute(f'DROP TABLE IF EXISTS {_TABLE}')
                cursor.execute(_CREATE)
                with cursor.copy(_COPY) as copy:
                    for key in range(records):
                        copy.write_row((key, *_values(source)))
                        if key % _REPORTED == 0:
                            progress(key)
                cursor.execute(f'ALTER TABLE {_TABLE} ADD PRIMARY KEY (key)')
                cursor.execute(f'ANALYZE {_TABLE}')
        progress(records)

    def remove(self) -> None:
        """Remove the table, if there is one.

        :raises SizingError: PostgreSQL refuses.
        """
        with _errors('remove the table'):
            self._connection.execute(f'DROP TABLE IF EXISTS {_TABLE}')

    def describe(self) -> Description:
        """Describe the store.

        :raises SizingError: there is no table, or it is empty.
        """
        with _errors('describe the table'):
            value_of = self._one
            if value_of('SELECT to_regclass(%s)', (_TABLE,)) is None:
                raise errors.SizingError(
                    f'PostgreSQL has no table {_TABLE}: make it with '
                    '--prepare first'
                )
            records = value_of(f'SELECT max(key) + 1 FROM {_TABLE}')  # noqa: S608
            if not records:
                raise errors.SizingError(
                    f'the table {_TABLE} is empty: fill it with --prepare'
                )
            return Description(
                store=f'PostgreSQL {value_of("SHOW server_version")}',
                settings={
                    name: value_of(f'SHOW {name}') for name in _SETTINGS
                },
                records=records,
                data_bytes=value_of(
                    'SELECT pg_total_relation_size(%s)', (_TABLE,)
                ),
            )

    def read(self, key: int) -> None:
        """Read all fields of a record.

        :raises SizingError: it is missing, or PostgreSQL fails.
        """
        with _errors(f'read record {key}'):
            row = self._connection.execute(_READ, (key,)).fetchone()
        _check(row is not None, key)

    def update(self, key: int, source: random.Random) -> None:
        """Write one field of a record.

        :raises SizingError: it is missing, or PostgreSQL fails.
        """
        statement = _UPDATES[source.randrange(len(_FIELDS))]
        with _errors(f'update record {key}'):
            done = self._connection.execute(statement, (_value(source), key))
        _check(done.rowcount == 1, key)

    def _one(
        self, query: str, parameters: tuple[typing.Any, ...] = ()
    ) -> typing.Any:
        return self._connection.execute(query, parameters).fetchone()[0]


def connect(url: str) -> Store:
    """Connect to PostgreSQL; each statement is a transaction of its own.

    :param url: as libpq takes it, ``postgresql://HOST/DATABASE`` or
        ``host=... dbname=...``.
    :raises SizingError: psycopg is not installed, the URL has a password, or
        PostgreSQL refuses.
    """
    psycopg = _psycopg()
    with _errors('be connected to'):
        if psycopg.conninfo.conninfo_to_dict(url).get('password'):
            raise errors.SizingError(
                'URL has a password, which all users of this machine can see '
                'among its processes: it belongs in PGPASSWORD or ~/.pgpass'
            )
        return Store(psycopg.connect(url, autocommit=True))


def _psycopg() -> typing.Any:
    try:
        import psycopg
    except ImportError as error:
        raise errors.SizingError(
            f'the load needs psycopg, and libpq: {error}; install '
            'nova-diskplacer[measure], or python3-psycopg of the distribution'
        ) from error
    return psycopg


@contextlib.contextmanager
def _errors(purpose: str) -> collections.abc.Iterator[None]:
    psycopg = _psycopg()
    try:
        yield
    except psycopg.Error as error:
        text = ' '.join(str(error).split())
        raise errors.SizingError(
            f'PostgreSQL cannot {purpose}: {text}'
        ) from error


def _check(exists: bool, key: int) -> None:
    if not exists:
        raise errors.SizingError(
            f'record {key} of the table {_TABLE} is missing: fill it again '
            'with --prepare'
        )


def _value(source: random.Random) -> str:
    return source.randbytes(_FIELD_BYTES // 2).hex()


def _values(source: random.Random) -> collections.abc.Iterator[str]:
    for _ in _FIELDS:
        yield _value(source)
