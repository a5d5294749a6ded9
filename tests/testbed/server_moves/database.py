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

"""Cinder's database, which is in a file, so that forked processes share it."""

import atexit
import functools
import os
import shutil
import tempfile

from oslo_config import cfg
from oslo_config import fixture as config_fixture

from cinder_vdisk_mapper.cinder_api.releases import db_api
from cinder_vdisk_mapper.cinder_api.releases import models


@functools.cache
def _path():
    """Return where it is: Cinder connects to it once in a process."""
    directory = tempfile.mkdtemp(dir='/root')
    atexit.register(shutil.rmtree, directory)
    return os.path.join(directory, 'cinder.sqlite')


def use(case):
    """Have a test use the database, which all tests of the process share."""
    config = case.useFixture(config_fixture.Config(cfg.CONF))
    config.config(connection=f'sqlite:///{_path()}', group='database')
    models.BASE.metadata.create_all(_engine())


def reconnect():
    """Have this process, which was forked, have connections of its own."""
    _engine().dispose(close=False)


def _engine():
    return db_api.main_context_manager.writer.get_engine()
