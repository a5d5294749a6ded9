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

"""Gives back everything that contention had changed in the kernel."""

import collections.abc

from oslo_config import cfg

from nova_diskplacer import exception
from nova_diskplacer.host import cgroups
from nova_diskplacer.io_weights import io_cost
from nova_diskplacer.io_weights import writer
from nova_diskplacer.monitor import seek_detector


def restore(conf: cfg.ConfigOpts) -> None:
    """Undo what an agent has changed, whichever way it ended; repeatable.

    :raises DiskPlacerError: something is not as it was; all else is.
    """
    failed = []
    for undo in (seek_detector.clean, *_giving_back()):
        try:
            undo(conf)
        except exception.DiskPlacerError as error:
            failed.append(str(error))
    if failed:
        raise exception.ContentionError('; '.join(failed))


def _giving_back() -> list[collections.abc.Callable[[cfg.ConfigOpts], None]]:
    try:
        hierarchy = cgroups.hierarchy()
    except exception.ContentionError:
        # and so there was nothing to change
        return []
    return [
        lambda conf: writer.Weights(conf, hierarchy).restore(),
        lambda conf: io_cost.IOCost(conf, hierarchy).restore(),
    ]
