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

"""Commands that read cinder.conf as cinder-volume does.

Cinder is imported only when a command runs: that takes seconds, and not every
host has it.
"""

import argparse
import collections.abc
import contextlib

from oslo_config import cfg
from oslo_db import exception as db_exc
from oslo_log import log as logging

from nova_diskplacer import exception
from nova_diskplacer.conf import diskplacer
from nova_diskplacer.conf import files as config_files
from nova_diskplacer.host import files as host_files


def add_option(command: argparse.ArgumentParser) -> None:
    """Add the option that names the files of a command."""
    command.add_argument(
        '--cinder-config-file',
        action='append',
        metavar='FILE',
        help='file to read instead of nova.conf, may be repeated (default: '
        'cinder.conf)',
    )


def configure(args: argparse.Namespace) -> None:
    """Read cinder.conf as cinder-volume does, and take the locks of its host.

    :raises DiskPlacerError: Cinder is not installed, or a file or an option
        is invalid.
    """
    try:
        from cinder import objects

        # before other modules of Cinder, which use them when imported
        objects.register_all()
        from cinder.common import config  # noqa: F401
        from cinder.volume import manager  # noqa: F401
    except ImportError as error:
        raise exception.DiskPlacerError(
            f'the command needs a host with cinder-volume: {error}'
        ) from error
    conf = cfg.CONF
    files = args.cinder_config_file or cfg.find_config_files(project='cinder')
    with config_files.read_errors(files):
        conf(
            config_files.as_service(args.cinder_config_file), project='cinder'
        )
        _log_to_stderr(conf)
        logging.setup(conf, 'cinder')
        conf.register_opt(diskplacer.LOCK_DIR, group=diskplacer.GROUP.name)
        host_files.set_lock_directory(conf.diskplacer.lock_dir)


def _log_to_stderr(conf: cfg.ConfigOpts) -> None:
    """Log to standard error only.

    A log file that root makes could not be written by cinder-volume.
    """
    for name in ('log_config_append', 'log_dir', 'log_file'):
        conf.set_override(name, None)
    for name in ('use_journal', 'use_syslog'):
        conf.set_override(name, False)
    conf.set_override('use_stderr', True)


@contextlib.contextmanager
def database_errors() -> collections.abc.Iterator[None]:
    """Raise errors of Cinder's database as errors for operators."""
    try:
        yield
    except db_exc.DBError as error:
        raise exception.DiskPlacerError(
            '[database] connection of cinder.conf: '
            + str(error).partition('\n')[0]
        ) from error
