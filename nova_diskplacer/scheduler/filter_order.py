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

"""Warnings about the order of Nova's filters."""

import functools

from oslo_log import log as logging

from nova_diskplacer import conf

LOG = logging.getLogger(__name__)

PLACEMENT_FILTER = 'DiskPlacementFilter'
NUMA = 'NUMATopologyFilter'


@functools.cache
def check() -> None:
    """Warn once if DiskPlacementFilter is missing or not last."""
    text = problem(conf.CONF.filter_scheduler.enabled_filters)
    if text:
        LOG.warning('%s', text)


def problem(enabled: list[str]) -> str | None:
    """Return the problem of ``[filter_scheduler] enabled_filters``, if any."""
    if PLACEMENT_FILTER not in enabled:
        return (
            f'{PLACEMENT_FILTER} is not in [filter_scheduler] '
            'enabled_filters: servers claim no disks, whatever their flavors '
            'ask for.'
        )
    behind = enabled[enabled.index(PLACEMENT_FILTER) + 1 :]
    if not behind:
        return None
    consequence = 'the query to Placement right before a claim may be lost'
    if NUMA in behind:
        consequence += (
            ', and vCPUs cannot be pinned to the NUMA cells of the disks'
        )
    return (
        f'{PLACEMENT_FILTER} is not the last one in [filter_scheduler] '
        f'enabled_filters; behind it: {", ".join(behind)}. Move it to the '
        f'end: otherwise {consequence}.'
    )


@functools.cache
def check_numa() -> None:
    """Warn once if no filter sets the limits of a NUMA topology."""
    if NUMA not in conf.CONF.filter_scheduler.enabled_filters:
        LOG.warning(
            'Flavors ask for diskplacer:numa and %s is not in '
            '[filter_scheduler] enabled_filters: NUMA cells may lack room, '
            'and vCPUs cannot be pinned to the cells of the disks. Put it '
            'right before %s.',
            NUMA,
            PLACEMENT_FILTER,
        )
