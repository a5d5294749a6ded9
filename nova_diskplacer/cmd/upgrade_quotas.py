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

"""The check of ``diskplacer-status`` of Cinder's default quotas."""

import collections.abc
import dataclasses

from nova_diskplacer.cmd import upgrade_checks

# Servers of the flavor with the most vdisks that a project should be able to
# have by Cinder's default quotas.
_SERVERS = 10


@dataclasses.dataclass(frozen=True)
class Quotas:
    """Cinder's default quotas of a project; -1 is no limit.

    ``gigabytes`` and ``per_volume_gigabytes`` are in GiB.
    """

    volumes: int
    gigabytes: int
    per_volume_gigabytes: int


def check(
    limits: Quotas, flavors: collections.abc.Collection[upgrade_checks.Flavor]
) -> upgrade_checks.Result:
    """Check that Cinder's default quotas hold servers of each flavor."""
    large = [
        f'{flavor.name} ({flavor.vdisk_gb})'
        for flavor in flavors
        if 0 <= limits.per_volume_gigabytes < flavor.vdisk_gb
    ]
    failures, warnings = [], []
    if large:
        failures.append(
            f'quota per_volume_gigabytes is {limits.per_volume_gigabytes}, '
            'and vdisks of these flavors have more GiB: '
            f'{", ".join(large)}. Raise [DEFAULT] per_volume_size_limit or '
            'the quota class default.'
        )
    for name, limit, needs in (
        ('volumes', limits.volumes, {f.name: f.vdisks for f in flavors}),
        (
            'gigabytes',
            limits.gigabytes,
            {f.name: f.vdisks * f.vdisk_gb for f in flavors},
        ),
    ):
        raise_it = (
            'Raise it for projects: openstack quota set '
            f'--{name} NUMBER PROJECT, or for all with --class default.'
        )
        none = [f'{f} ({n})' for f, n in needs.items() if 0 <= limit < n]
        if none:
            failures.append(
                f'quota {name} is {limit}, and a server of these flavors '
                f'needs more: {", ".join(none)}. {raise_it}'
            )
        few = [
            f'{flavor} ({limit // needed})'
            for flavor, needed in needs.items()
            if needed <= limit < _SERVERS * needed
        ]
        if few:
            warnings.append(
                f'quota {name} is {limit}, and a project can have few servers '
                f'of these flavors: {", ".join(few)}. {raise_it}'
            )
    if failures:
        return upgrade_checks.failure(' '.join(failures))
    if warnings:
        return upgrade_checks.warning(' '.join(warnings))
    return upgrade_checks.success()
