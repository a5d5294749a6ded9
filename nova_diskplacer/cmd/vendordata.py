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

"""diskplacer-vendordata: answers Nova's requests for vendor data."""

import argparse
import contextlib
import importlib
import logging
import os
import signal
import threading
import typing

from oslo_config import cfg

from nova_diskplacer import conf
from nova_diskplacer import exception
from nova_diskplacer.cmd import common
from nova_diskplacer.cmd import outcome
from nova_diskplacer.host import systemd
from nova_diskplacer.vendordata import application as vendordata

# Bytes of the headers of a request, which has no token yet that was checked.
_MAX_HEADERS = 64 << 10

# Connections that wait to be accepted: many hosts may boot servers at once.
_BACKLOG = 512


def application() -> typing.Any:
    """Return the WSGI application, for any WSGI server.

    It reads the files that ``OS_DISKPLACER_CONFIG_FILES`` names, separated by
    semicolons as in ``OS_NOVA_CONFIG_FILES`` (default: nova.conf).

    :raises DiskPlacerError: an option or a profile is invalid.
    """
    names = os.environ.get('OS_DISKPLACER_CONFIG_FILES', '').split(';')
    common.configure([name for name in names if name], [])
    return vendordata.from_conf(conf.CONF)


@outcome.command('diskplacer-vendordata')
def main() -> int:
    """Serve the application until a signal ends it."""
    parser = argparse.ArgumentParser(
        prog='diskplacer-vendordata',
        description="Answers Nova's requests for dynamic vendor data, by "
        'which servers format and mount their vdisks. Other arguments are '
        'options of oslo.config and oslo.log, such as --debug.',
        allow_abbrev=False,
    )
    common.add_config_file(parser)
    args, rest = parser.parse_known_args()
    # With memcached_servers, keystonemiddleware imports eventlet at the first
    # request, where it is installed. In a worker's thread, that replaces the
    # lock by which stop() sees that the thread has ended: stop() never ends.
    with contextlib.suppress(ImportError):
        importlib.import_module('eventlet')
    endings = common.block_endings()
    common.configure(args.config_file, rest)
    server = prepare(conf.CONF, vendordata.from_conf(conf.CONF))
    threading.Thread(target=server.serve, daemon=True).start()
    # it listens already, so that no connection is refused from now on
    systemd.notify_ready()
    signal.sigwait(endings)
    server.stop()
    logging.shutdown()
    return 0


def prepare(options: cfg.ConfigOpts, app: typing.Any) -> typing.Any:
    """Return a server of an application, which listens as configured.

    :raises DiskPlacerError: the address cannot be used.
    """
    # other WSGI servers do without
    from cheroot import wsgi

    group = options.diskplacer_vendordata
    address = (group.listen_address, group.listen_port)
    server = wsgi.Server(address, app, request_queue_size=_BACKLOG)
    server.max_request_header_size = _MAX_HEADERS
    try:
        server.prepare()
    except OSError as error:
        raise exception.DiskPlacerError(
            f'[{conf.vendordata.GROUP.name}] listen_address={address[0]}, '
            f'listen_port={address[1]}: {error}'
        ) from error
    return server
