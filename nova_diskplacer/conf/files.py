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

"""Errors of configuration files, as errors for operators."""

import collections.abc
import contextlib

from oslo_config import cfg
from oslo_log import log as logging

from nova_diskplacer import exception


@contextlib.contextmanager
def read_errors(
    files: collections.abc.Iterable[str],
) -> collections.abc.Iterator[None]:
    """Raise what is wrong with configuration files as DiskPlacerError.

    :param files: the files that are read, for the message.
    :raises DiskPlacerError: a file cannot be read, or an option is invalid.
    """
    try:
        yield
    except (cfg.Error, logging.LogConfigError, OSError) as error:
        raise exception.DiskPlacerError(str(error)) from error
    except UnicodeDecodeError as error:
        names = ', '.join(filter(_is_undecodable, files))
        raise exception.DiskPlacerError(
            f'configuration file {names}: not UTF-8: {error}'
        ) from error


def _is_undecodable(path: str) -> bool:
    try:
        with open(path, encoding='utf-8') as stream:
            stream.read()
    except UnicodeDecodeError:
        return True
    except OSError:
        return False
    return False
