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

"""Finds and reads configuration files, with errors for operators."""

import collections.abc
import contextlib
import os
import stat

from oslo_config import cfg
from oslo_log import log as logging

from nova_diskplacer import exception


def sources(
    named: list[str] | None,
) -> tuple[list[str], list[str] | None]:
    """Return the default files and directories of ``ConfigOpts``.

    Without files that the user names they are nova.conf and, as None,
    nova.conf.d, which goes before all default files.
    """
    if named:
        return named, []
    return cfg.find_config_files(project='nova'), None


def read(
    conf: cfg.ConfigOpts,
    named: list[str] | None,
    arguments: collections.abc.Iterable[str] = (),
) -> None:
    """Read configuration files into options.

    :param named: those that the user names, as in :func:`sources`.
    :param arguments: further options of oslo.config, from the command line.
    :raises DiskPlacerError: a file cannot be read, or an option is invalid.
    """
    files, directories = sources(named)
    with read_errors(files):
        conf(
            list(arguments),
            project='nova',
            prog='diskplacer',
            default_config_files=files,
            default_config_dirs=directories,
        )


def as_service(named: list[str] | None) -> list[str]:
    """Return the arguments by which a service of OpenStack reads files.

    Without files that the user names, it reads those of its project.
    """
    return [f'--config-file={name}' for name in named or ()]


@contextlib.contextmanager
def read_errors(
    files: collections.abc.Collection[str],
) -> collections.abc.Iterator[None]:
    """Raise what is wrong with configuration files as DiskPlacerError.

    :param files: the files that are read.
    :raises DiskPlacerError: a file cannot be read, or an option is invalid.
    """
    for path in files:
        if _is_device(path):
            # it may never end
            raise exception.DiskPlacerError(
                f'configuration file {path}: a device, where a file is needed'
            )
    try:
        yield
    except (cfg.Error, logging.LogConfigError, OSError) as error:
        raise exception.DiskPlacerError(str(error)) from error
    except UnicodeDecodeError as error:
        names = ', '.join(filter(_is_undecodable, files))
        raise exception.DiskPlacerError(
            f'configuration file {names}: not UTF-8: {error}'
        ) from error


def _is_device(path: str) -> bool:
    """Return whether a path is a device, other than that without content."""
    try:
        found, empty = os.stat(path), os.stat(os.devnull)
    except OSError:
        return False
    kind = stat.S_IFMT(found.st_mode)
    return kind in (stat.S_IFCHR, stat.S_IFBLK) and (
        found.st_rdev != empty.st_rdev
    )


def _is_undecodable(path: str) -> bool:
    try:
        with open(path, encoding='utf-8') as stream:
            stream.read()
    except UnicodeDecodeError:
        return True
    except OSError:
        return False
    return False
