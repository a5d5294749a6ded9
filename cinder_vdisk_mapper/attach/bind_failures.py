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

"""Counts failures to bind, for the metrics of the host's agent."""

import collections.abc
import functools
from typing import Any
from typing import Concatenate
from typing import ParamSpec
from typing import TypeVar

from oslo_log import log as logging

from cinder_vdisk_mapper.cinder_api import errors
from nova_diskplacer import exception
from nova_diskplacer import nova_server
from nova_diskplacer.disks import bind_failures

LOG = logging.getLogger(__name__)

_REASONS: tuple[tuple[type[Exception], str], ...] = (
    (errors.BindingError, bind_failures.REFUSED),
    (exception.DiskError, bind_failures.DISK),
    (exception.PlacementError, bind_failures.PLACEMENT),
    (nova_server.NovaError, bind_failures.NOVA),
)

_Arguments = ParamSpec('_Arguments')
_Result = TypeVar('_Result')


def counted(
    method: collections.abc.Callable[Concatenate[Any, _Arguments], _Result],
) -> collections.abc.Callable[Concatenate[Any, _Arguments], _Result]:
    """Count the errors of a method whose object has ``operations``."""

    @functools.wraps(method)
    def counting(
        self: Any, /, *args: _Arguments.args, **kwargs: _Arguments.kwargs
    ) -> _Result:
        try:
            return method(self, *args, **kwargs)
        except exception.DiskPlacerError as error:
            _count(self.operations.backend, error)
            raise

    return counting


def reason_of(error: Exception) -> str:
    """Return the reason that an error is counted under."""
    return next(
        (reason for kind, reason in _REASONS if isinstance(error, kind)),
        bind_failures.OTHER,
    )


def _count(backend: Any, error: Exception) -> None:
    try:
        backend.count_bind_failure(reason_of(error))
    except exception.DiskError as failure:
        # the caller gets the error that matters
        LOG.warning('A failure to bind is not counted: %s', failure)
