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

"""What all parts of the driver share: its backend, its binder, its disks."""

from typing import Any

from cinder import exception as cinder_exc
from cinder.volume import configuration
from cinder.volume import driver
from oslo_config import cfg
from oslo_log import log as logging
from stevedore import driver as stevedore_driver

from cinder_vdisk_mapper import binding
from cinder_vdisk_mapper import cinder_internals
from cinder_vdisk_mapper import conf
from cinder_vdisk_mapper import locks
from cinder_vdisk_mapper.backend import base
from nova_diskplacer import exception
from nova_diskplacer import internals
from nova_diskplacer.disks import discover
from nova_diskplacer.placement import client as placement_client

LOG = logging.getLogger(__name__)

CONF = cfg.CONF
CONF.register_opts(conf.OPTS, group=configuration.SHARED_CONF_GROUP)

BACKENDS = 'cinder_vdisk_mapper.backend'


class Core(driver.VolumeDriver):
    """Base of the parts that VDiskMapperDriver is made of."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.configuration.append_config_values(conf.OPTS)
        self._binder: binding.Binder | None = None

    def do_setup(self, context: Any) -> None:
        """Load the backend; Placement is not asked until it is needed."""
        internals.check(cinder_internals.VOLUME, cinder_internals.RELEASE)
        self.backend = load_backend(self.configuration)

    def check_for_setup_error(self) -> None:
        """Refuse to start without a lock path; disks may come later.

        What a killed process has left is removed: its locks, and what it has
        not finished on healthy disks.
        """
        if not CONF.oslo_concurrency.lock_path:
            raise cinder_exc.VolumeDriverException(
                message='[oslo_concurrency] lock_path of cinder.conf is not '
                'set; it must be a directory that all cinder-volume '
                'processes of the host share'
            )
        locks.sweep()
        disks = self.disks()
        for disk in disks:
            try:
                self.backend.sweep(disk.uuid)
            except exception.DiskError as error:
                # the next change of the disk tries again
                LOG.warning('Disk %s is not swept: %s', disk.uuid, error)
        if not disks:
            LOG.warning(
                'No healthy disk (%s) under vdisk_disk_root=%s',
                self.configuration.vdisk_media,
                self.configuration.vdisk_disk_root,
            )

    @property
    def binder(self) -> binding.Binder:
        """What binds vdisks to disks, made when it is first needed."""
        if self._binder is None:
            self._binder = binding.Binder(
                self.backend,
                placement_client.PlacementClient.from_conf(CONF),
                self.configuration.vdisk_media,
            )
        return self._binder

    def disks(self) -> list[discover.Disk]:
        """Return the healthy disks of this backend's medium."""
        return binding.usable(
            self.backend.disks(), self.configuration.vdisk_media
        )

    def require(self, disk: str | None, vdisk: str | None = None) -> None:
        """See that a disk is there and healthy, and a vdisk on it whole.

        :param vdisk: None where only the disk matters.
        :raises DiskError: they are not.
        """
        if not disk:
            raise exception.DiskError('the volume is not bound to a disk')
        health = self.backend.disk(disk).health
        if health != discover.OK:
            raise exception.DiskError(f'disk {disk} of this host is {health}')
        if vdisk:
            self.binder.look(disk, vdisk)

    def delete_vdisk(self, disk: str | None, name: str) -> None:
        """Delete a vdisk and whatever a killed attempt left of it.

        One on a disk that is missing is kept, lest its bytes be left behind;
        one on a disk that was forgotten went with the disk.

        :param disk: what ``provider_location`` says.
        :raises DiskError: its disk is missing, or refuses.
        """
        if disk and self.backend.forgotten(disk):
            LOG.warning('%s was on disk %s, which is forgotten', name, disk)
        elif disk:
            self.require(disk)
            self.binder.delete(disk, name)
        for leftover in self.binder.places(name):
            self.binder.delete(leftover, name)


def load_backend(options: Any) -> base.Backend:
    """Return the backend that the options of a section name."""
    backend: base.Backend = stevedore_driver.DriverManager(
        BACKENDS,
        options.vdisk_backend,
        invoke_on_load=True,
        invoke_args=(options.vdisk_disk_root,),
    ).driver
    backend.configuration = options
    return backend
