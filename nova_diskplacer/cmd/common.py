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

"""Configuration, logging and RPC transport of the commands."""

import argparse
import collections.abc
import logging as py_logging
import multiprocessing
import os
import signal
import socket
from typing import TYPE_CHECKING
from typing import TypeVar

from oslo_config import cfg
from oslo_log import log as logging

from nova_diskplacer import conf as options
from nova_diskplacer import exception
from nova_diskplacer.conf import files as config_files_
from nova_diskplacer.host import files

if TYPE_CHECKING:
    import oslo_messaging

PROJECT = 'diskplacer'

_Result = TypeVar('_Result')


def add_config_file(parser: argparse.ArgumentParser) -> None:
    """Add the option that names configuration files."""
    parser.add_argument(
        '--config-file',
        action='append',
        metavar='FILE',
        help='file to read, may be repeated (default: nova.conf)',
    )


def configure(config_files: list[str] | None, arguments: list[str]) -> None:
    """Read the configuration and start logging.

    :param config_files: files to read; None for the default, nova.conf and
        nova.conf.d.
    :param arguments: further options of oslo.config, from the command line.
    :raises DiskPlacerError: a file cannot be read, or an option is invalid.
    """
    conf = options.CONF
    register_options(conf)
    config_files_.read(conf, config_files, arguments)
    with config_files_.read_errors(()):
        # oslo.config validates a value when it is read
        for module in options.GROUPS:
            for option in module.OPTS:
                conf[module.GROUP.name][option.name]
        if not (conf.log_file or conf.log_dir or conf.use_journal):
            # stdout, the default, is for the output of commands
            conf.set_default('use_stderr', True)
        logging.setup(conf, PROJECT)
    files.set_lock_directory(conf.diskplacer.lock_dir)


def register_options(conf: cfg.ConfigOpts) -> None:
    """Register the options of the commands."""
    logging.register_options(conf)
    options.register_opts(conf)
    conf.register_opt(
        cfg.StrOpt(
            'host',
            default=socket.gethostname(),
            help='Name of the compute service on this host, as in nova.conf.',
        )
    )


def transport() -> 'oslo_messaging.Transport':
    """Return the transport that ``[DEFAULT] transport_url`` describes.

    :raises DiskPlacerError: the URL is not valid, or its driver is missing.
    """
    # most commands send nothing, and it takes longer to import than the rest
    import oslo_messaging

    from nova_diskplacer import reports

    # a command that has its answers closes its queue, which RabbitMQ reports
    # to the consumer that is being closed
    py_logging.getLogger('amqp').addFilter(_is_of_use)
    try:
        return reports.get_transport(options.CONF)
    except (
        oslo_messaging.DriverLoadFailure,
        oslo_messaging.InvalidTransportURL,
    ) as error:
        raise exception.DiskPlacerError(
            f'[DEFAULT] transport_url: {error}'
        ) from error


def _is_of_use(record: py_logging.LogRecord) -> bool:
    return 'during closing channel' not in str(record.msg)


def block_endings() -> set[signal.Signals]:
    """Block the signals that end a service, and return them for ``sigwait``.

    All later threads inherit the mask: only ``sigwait`` receives the signals,
    and no handler interrupts code that holds a lock. What runs under nohup
    goes on ignoring SIGHUP.
    """
    endings = {signal.SIGTERM, signal.SIGINT}
    if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:
        endings.add(signal.SIGHUP)
    signal.pthread_sigmask(signal.SIG_BLOCK, endings)
    return endings


def run_in_child(work: collections.abc.Callable[[], _Result]) -> _Result:
    """Call ``work`` in a child process and return its result.

    A process cannot end while one of its threads waits for a hung disk. Only
    the child waits then, so this process can end.

    :raises Exception: the exception that ``work`` raised.
    """
    reader, writer = multiprocessing.Pipe(duplex=False)
    if os.fork() == 0:
        try:
            try:
                result: _Result | Exception = work()
            except Exception as error:  # noqa: BLE001 the parent raises it
                result = error
            writer.send(result)
        finally:
            os._exit(0)
    writer.close()
    with reader:
        result = reader.recv()
    if isinstance(result, Exception):
        raise result
    return result
