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

"""Translates the project's errors to Cinder's.

Cinder and Nova show the text of an error to the owner of the volume, who must
not learn of hosts, disks, other projects or the space on disks.
"""

import contextlib
from collections.abc import Iterator

from cinder import exception as cinder_exc
from oslo_db import exception as db_exc
from oslo_log import log as logging

from nova_diskplacer import exception

LOG = logging.getLogger(__name__)

_PUBLIC = (
    'the volume service cannot do this at present; its operator finds the '
    'reason in the log of cinder-volume'
)


class BindingError(exception.DiskPlacerError):
    """A volume may not be bound, attached or changed as requested.

    :param message: complete explanation for operators.
    :param public: one sentence for the owner of the volume. It names no host,
        disk, project or server and no free space.
    """

    def __init__(self, message: str, public: str) -> None:
        super().__init__(message)
        self.public = public


@contextlib.contextmanager
def cinder_errors() -> Iterator[None]:
    """Raise what Cinder and its database raise as a DiskError."""
    try:
        yield
    except (cinder_exc.CinderException, db_exc.DBError) as error:
        raise exception.DiskError(str(error).partition('\n')[0]) from error


@contextlib.contextmanager
def as_driver_error() -> Iterator[None]:
    """Raise VolumeDriverException in place of the project's errors.

    The message of an error is logged; Cinder gets its ``public`` sentence, or
    a general one.
    """
    try:
        yield
    except exception.DiskPlacerError as error:
        LOG.error('%s', error)
        public = getattr(error, 'public', _PUBLIC)
        # the reply to an RPC contains the texts of all causes
        raise cinder_exc.VolumeDriverException(message=public) from None
