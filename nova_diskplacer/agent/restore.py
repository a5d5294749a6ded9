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

"""Restores the kernel settings that the agent changed for I/O weights."""

from oslo_config import cfg

from nova_diskplacer import exception
from nova_diskplacer.host import cgroups
from nova_diskplacer.io_weights import io_cost
from nova_diskplacer.io_weights import writer
from nova_diskplacer.monitor import seek_detector


def restore_kernel_state(conf: cfg.ConfigOpts) -> None:
    """Restore weights and io.cost, and remove trace instances; repeatable.

    :raises DiskPlacerError: a part could not be restored; the others are.
    """
    failed = []
    for restore in (seek_detector.clean, _restore_weights, _restore_io_cost):
        try:
            restore(conf)
        except exception.DiskPlacerError as error:
            failed.append(str(error))
    if failed:
        raise exception.ContentionError('; '.join(failed))


def _restore_weights(conf: cfg.ConfigOpts) -> None:
    hierarchy = _hierarchy()
    if hierarchy is not None:
        writer.WeightWriter(conf, hierarchy).restore()


def _restore_io_cost(conf: cfg.ConfigOpts) -> None:
    hierarchy = _hierarchy()
    if hierarchy is not None:
        io_cost.IOCost(conf, hierarchy).disable_except()


def _hierarchy() -> cgroups.Hierarchy | None:
    """Return the cgroup hierarchy; without one nothing was changed."""
    try:
        return cgroups.hierarchy()
    except exception.ContentionError:
        return None
