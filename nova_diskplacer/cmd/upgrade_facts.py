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

"""Reads the facts that ``diskplacer-status`` checks.

They come from nova.conf and cinder.conf of this host, Placement, the message
bus and, where clouds.yaml or OS_* variables describe a cloud, from its APIs.
"""

import argparse
import collections.abc
import functools
import os
import queue
import time
from typing import Any

import openstack
from oslo_config import cfg

from nova_diskplacer import constants
from nova_diskplacer import exception
from nova_diskplacer import flavor as flavor_
from nova_diskplacer import report_format
from nova_diskplacer import reports
from nova_diskplacer.api import backend_media
from nova_diskplacer.client import nova_flavors
from nova_diskplacer.client import placement_disks
from nova_diskplacer.cmd import cloud
from nova_diskplacer.cmd import common
from nova_diskplacer.cmd import map as map_
from nova_diskplacer.cmd import upgrade_checks as checks
from nova_diskplacer.cmd import upgrade_quotas
from nova_diskplacer.conf import files as config_files
from nova_diskplacer.placement import client as placement_client
from nova_diskplacer.profiles import advice
from nova_diskplacer.profiles import catalogue

# Seconds to wait for the reports of agents, and the answers of schedulers.
_AGENTS = 10.0
_SCHEDULERS = 3.0

_NOVA = (
    ('filter_scheduler', cfg.ListOpt('enabled_filters')),
    (
        'filter_scheduler',
        cfg.MultiStrOpt('available_filters', default=[checks.ALL_FILTERS]),
    ),
    ('diskplacer_scheduler', cfg.BoolOpt('moves', default=False)),
)
_CINDER = (('DEFAULT', cfg.ListOpt('scheduler_default_filters')),)

#: An option of the command line.
CINDER_FILES = cfg.MultiStrOpt(
    'cinder-config-file',
    metavar='PATH',
    help='configuration file of cinder-scheduler, may be repeated (default: '
    "Cinder's own)",
)

#: Configuration files of a service that are there.
Files = collections.abc.Sequence[str]


class Reader:
    """Reads facts; each method raises DiskPlacerError if it cannot."""

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        self._conf = conf

    @functools.cached_property
    def software(self) -> checks.Software:
        """The software of this host."""
        fields = catalogue.software(self._conf.diskplacer.profile_dirs)
        return checks.Software(self._conf.host, **fields)

    @functools.cached_property
    def placement(self) -> placement_client.PlacementClient:
        """The client of Placement."""
        return placement_client.PlacementClient.from_conf(
            self._conf, patient=False
        )

    def nova(self) -> cfg.ConfigOpts:
        """Return the options of nova.conf that are checked."""
        files = self._conf.config_file
        if files == self._conf.default_config_files:
            files = None
        return read_options('nova', files, _NOVA)

    def cinder(self) -> cfg.ConfigOpts:
        """Return the options of cinder.conf that are checked."""
        return read_options('cinder', self._conf.cinder_config_file, _CINDER)

    def make_names(self) -> None:
        """Create the traits and resource classes, as each agent does."""
        self.placement.ensure_names()

    @functools.cached_property
    def _roots(self) -> set[str]:
        return {disk.root for disk in self.placement.disks()}

    @functools.cached_property
    def _reports(self) -> dict[str, report_format.Report]:
        return map_.collect_reports(common.transport(), self._roots, _AGENTS)

    @functools.cached_property
    def agents(self) -> tuple[list[checks.Software], list[str]]:
        """The software of agents that report, and the silent hosts."""
        silent = placement_disks.names_of(
            self.placement, self._roots - self._reports.keys()
        )
        return [_software(report) for report in self._reports.values()], [
            *silent.values()
        ]

    @property
    def weighing_hosts(self) -> list[checks.WeighingHost]:
        """The hosts with I/O weights on, of those that report."""
        return [
            checks.WeighingHost(
                report['host'],
                report['weights'],
                frozenset(disk['medium'] for disk in report['disks']),
            )
            for report in self._reports.values()
            if report.get('weights')
        ]

    @functools.cached_property
    def schedulers(self) -> list[checks.Software]:
        """The software of the scheduler workers that answer."""
        answers: queue.Queue[report_format.Report] = queue.Queue()
        transport = common.transport()
        listener = reports.SchedulerListener(transport, answers.put)
        map_.call_with_timeout(_AGENTS, listener.start)
        try:
            map_.call_with_timeout(
                _AGENTS, lambda: reports.request_software(transport)
            )
            time.sleep(_SCHEDULERS)
        finally:
            listener.stop()
        return [_software(answers.get()) for _ in range(answers.qsize())]

    @property
    def has_cloud(self) -> bool:
        """True if environment variables name or describe a cloud."""
        return bool({'OS_CLOUD', 'OS_AUTH_URL'} & os.environ.keys())

    @functools.cached_property
    def _volumes(self) -> Any:
        with cloud.convert_errors('Cinder'):
            connection = openstack.connect()
            cloud.limit_time(connection.session)
            return connection.block_storage

    @functools.cached_property
    def _pools(self) -> list[Any]:
        """The pools of all backends with vdisks."""
        with cloud.convert_errors('pools of Cinder'):
            return [
                pool
                for pool in self._volumes.backend_pools()
                if pool.capabilities.get('vdisk_mapper')
            ]

    def cinder_hosts(self) -> set[str]:
        """Return the hosts of backends with vdisks."""
        return {pool.host for pool in self.pools()}

    def hosts_without_moves(self) -> set[str]:
        """Return the hosts of backends that do not move vdisks."""
        return {
            pool.name.partition('@')[0]
            for pool in self._pools
            if not pool.capabilities.get(constants.CAN_MOVE)
        }

    def backends(self) -> set[str]:
        """Return ``volume_backend_name`` of backends with vdisks."""
        return {pool.backend for pool in self.pools()}

    def pools(self) -> list[backend_media.Pool]:
        """Return the pools of backends with vdisks."""
        return [
            backend_media.Pool(
                pool.name.partition('@')[0],
                pool.capabilities['volume_backend_name'],
                pool.capabilities['vdisk_media'],
            )
            for pool in self._pools
        ]

    def quotas(self) -> upgrade_quotas.Quotas:
        """Return Cinder's default quotas."""
        with cloud.convert_errors('quotas of Cinder'):
            quota = self._volumes.get_quota_class_set('default')
        return upgrade_quotas.Quotas(
            quota.volumes, quota.gigabytes, quota.per_volume_gigabytes
        )

    def volume_types(self) -> tuple[list[checks.VolumeType], str | None]:
        """Return all volume types, and the name of the default one."""
        with cloud.convert_errors('volume types of Cinder'):
            types = [
                checks.VolumeType(
                    volume_type.name,
                    (volume_type.extra_specs or {}).get(
                        'volume_backend_name', ''
                    ),
                )
                for volume_type in self._volumes.types(is_public='None')
            ]
            answer = self._volumes.get('/types/default')
        default = None
        if answer.status_code == 200:
            default = answer.json()['volume_type']['name']
        return types, default

    def flavors(self) -> list[checks.Flavor]:
        """Return the flavors with vdisks."""
        connection = cloud.connection(argparse.Namespace(os_cloud=None))
        profiles = catalogue.load(self._conf.diskplacer.profile_dirs)
        with_vdisks = []
        for named in nova_flavors.read(connection):
            specs = advice.effective_specs(named.flavor.extra_specs, profiles)
            sizes = [
                specs.get(flavor_.NAMESPACE + name, '')
                for name in ('vdisks', 'vdisk_gb')
            ]
            media, volume_type = (
                specs.get(flavor_.NAMESPACE + name, '')
                for name in ('media', flavor_.VOLUME_TYPE)
            )
            default = self._conf.diskplacer_api.volume_type
            if all(size.isdecimal() for size in sizes):
                vdisks, vdisk_gb = map(int, sizes)
                with_vdisks.append(
                    checks.Flavor(
                        named.name,
                        vdisks,
                        vdisk_gb,
                        media or flavor_.ANY,
                        volume_type or default or '',
                        advice.media_without_bfq(
                            profiles.get(specs.get(advice.PROFILE, ''))
                        ),
                    )
                )
        return with_vdisks


def _software(report: report_format.Report) -> checks.Software:
    return checks.Software(
        report['host'], report.get('release', ''), report.get('profiles', '')
    )


def read_options(
    project: str,
    files: list[str] | None,
    options: collections.abc.Iterable[tuple[str, cfg.Opt]],
) -> cfg.ConfigOpts:
    """Return options of a service's configuration on this host.

    As in the service, named files go before the project's directory.

    :param files: None for the default ones of the project.
    :raises DiskPlacerError: a file is invalid.
    """
    conf = cfg.ConfigOpts()
    for group, option in options:
        conf.register_opt(option, None if group == 'DEFAULT' else group)
    try:
        conf(config_files.as_service(files), project=project)
    except cfg.Error as error:
        raise exception.DiskPlacerError(f'{project}.conf: {error}') from error
    return conf
