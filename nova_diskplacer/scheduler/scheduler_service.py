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

"""The end of nova-scheduler's service in this process.

Nova tells filters and weighers of it by nothing. A process has more than one
such service in Nova's functional tests only, where one that stops ends what
the others start again with their next request.
"""

import collections.abc
import functools
import typing

from nova import service as nova_service
from oslo_log import log as logging

from nova_diskplacer import internals
from nova_diskplacer.scheduler import nova_internals

LOG = logging.getLogger(__name__)

BINARY = 'nova-scheduler'


@functools.cache
def call_after_stop(end: collections.abc.Callable[[], None]) -> None:
    """Call ``end`` when a nova-scheduler of this process has stopped.

    Its requests have ended by then. Without the names in Nova that this needs
    it is never called. Once per process for each ``end``.
    """
    absent = internals.missing(nova_internals.SERVICE)
    if absent:
        LOG.debug('The end of nova-scheduler is unknown: no %s', absent)
        return
    stop = nova_service.Service.stop

    @functools.wraps(stop)
    def stop_and_end(
        service: typing.Any, *args: typing.Any, **kwargs: typing.Any
    ) -> None:
        try:
            stop(service, *args, **kwargs)
        finally:
            if service.binary == BINARY:
                _end(end)

    nova_service.Service.stop = stop_and_end


def _end(end: collections.abc.Callable[[], None]) -> None:
    try:
        end()
    except Exception:
        # nova-scheduler stops whatever happens, as for Nova's own RPC server
        LOG.exception('What ends with %s has failed to end', BINARY)
