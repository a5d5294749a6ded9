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

"""OpenStack's services in tests, which start them anew for each test.

What they find out once in their lives is kept for the life of the process,
and so is what Placement finds out for each request.
"""

import functools
import gc
import inspect
import re
import time
import types

import jsonschema
import requests
import sqlalchemy
from oslo_middleware import base as middleware
from oslo_policy import _checks
from oslo_policy import policy
from placement.objects import allocation
from placement.objects import consumer
from placement.objects import inventory
from placement.objects import resource_provider
from sqlalchemy import pool
from sqlalchemy import util
from sqlalchemy.dialects.sqlite import pysqlite

from nova_diskplacer import exception

# seconds that a disk may take to answer, on a busy machine
_PATIENCE = 400


def remember():
    """Have services of this process remember, from now on."""
    _remember_valid_schemas()
    _remember_aliases()
    _remember_policies()
    _remember_signatures()
    _prepare_engines()
    _skip_environment()
    # each API has more routes than ``re`` remembers
    re._MAXCACHE = 10000
    # what has been imported stays; looking at it takes as long as a test
    gc.freeze()
    gc.set_threshold(20000, 20, 100)


def _remember_valid_schemas():
    """Have jsonschema check each schema once, not for each request."""
    for validator in (
        jsonschema.Draft4Validator,
        jsonschema.Draft7Validator,
        jsonschema.Draft202012Validator,
    ):
        validator.check_schema = _once(validator.check_schema)


def _once(check):
    checked = {}

    def checked_once(schema, *args, **kwargs):
        if id(schema) not in checked:
            check(schema, *args, **kwargs)
            # its ID is that of no other as long as it is held
            checked[id(schema)] = schema

    return checked_once


def _remember_aliases():
    """Have Placement make its tables' aliases, with all columns, once.

    Only where no query is part of another: SQLAlchemy takes the same alias
    in both for the same rows.
    """
    for module in (allocation, consumer, inventory, resource_provider):
        module.sa = _SQLAlchemy()


class _SQLAlchemy:
    """SQLAlchemy, which makes an alias once."""

    def __init__(self):
        self.alias = functools.cache(sqlalchemy.alias)

    def __getattr__(self, name):
        return getattr(sqlalchemy, name)


def _remember_policies():
    """Have files of policies that are the same be parsed once."""
    parsed = functools.cache(policy.parse_file_contents)
    policy.parse_file_contents = lambda data: dict(parsed(data))


def _remember_signatures():
    """Have what is called for each request be inspected once."""
    known = functools.cache(inspect.getfullargspec)

    def getfullargspec(function):
        return known(getattr(function, '__func__', function))

    middleware.getfullargspec = getfullargspec
    _checks.inspect = types.SimpleNamespace(getfullargspec=getfullargspec)


def _prepare_engines():
    """Have all databases, which are SQLite's, do with less for a query.

    They share compiled statements. Those in files keep their connections: a
    new one reads the schema before its first query, and the last to be closed
    writes what is in the write-ahead log into the database.
    """
    dialect = pysqlite.SQLiteDialect_pysqlite
    dialect.__eq__ = lambda self, other: type(self) is type(other)
    dialect.__hash__ = lambda self: hash(type(self))
    compiled = util.LRUCache(5000)

    def prepare(cls, engine):
        engine._compiled_cache = compiled
        if isinstance(engine.pool, pool.NullPool):
            engine.pool = pool.QueuePool(
                engine.pool._creator,
                max_overflow=-1,
                _dispatch=engine.pool.dispatch,
            )

    # called for each new engine
    dialect.engine_created = classmethod(prepare)


def _skip_environment():
    """Have requests not look for proxies and passwords: all are here.

    It would read the whole environment three times for each request.
    """
    requests.sessions.get_environ_proxies = lambda *args, **kwargs: {}
    requests.sessions.get_netrc_auth = lambda *args, **kwargs: None


def reconcile(sync, look):
    """Bring Placement up to date as an agent does: it tries again.

    :param look: returns the disks.
    :raises Conflict: a disk has not answered in time for long, or somebody
        else writes again and again.
    """
    deadline = time.monotonic() + _PATIENCE
    while True:
        try:
            return sync.reconcile(look())
        except exception.Conflict:
            if time.monotonic() > deadline:
                raise
        # the agent waits for more; a busy machine gets on meanwhile
        time.sleep(1)
