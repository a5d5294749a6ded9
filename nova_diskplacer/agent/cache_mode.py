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

"""Determines the host cache mode of vdisks on this host.

nova-compute has a configured mode for all volumes that are files and one for
all that are block devices.
"""

import collections.abc

from oslo_config import cfg
from oslo_log import log as logging

from nova_diskplacer import exception
from nova_diskplacer.disks import discover
from nova_diskplacer.disks import usage
from nova_diskplacer.disks.lvm import naming
from nova_diskplacer.host import libvirt_servers
from nova_diskplacer.host import log_once
from nova_diskplacer.host import nova_conf
from nova_diskplacer.host import retry_logger
from nova_diskplacer.placement import traits

LOG = logging.getLogger(__name__)

# Nova's names of the source types of volumes.
FILE = 'file'
BLOCK = 'block'

# Nova's mode for volumes without a configured one.
_NOVA_DEFAULT = 'none'

# QEMU's mode for "default".
_QEMU_DEFAULT = 'writeback'

Modes = dict[str, str | None]


class CacheModes:
    """Determines the cache mode of each disk.

    :param files: the configuration files of nova-compute; missing ones are
        ignored.
    """

    def __init__(self, files: collections.abc.Iterable[str]) -> None:
        self._config = nova_conf.reloading(tuple(files), _read_modes)
        self._read_log = retry_logger.RetryLogger(
            'The cache mode of vdisks cannot be read from [libvirt] '
            'disk_cachemodes of nova-compute',
            'The cache mode of vdisks can be read',
        )
        self._configured: Modes = {}
        self._log = log_once.ChangeLogger(LOG)

    def determine(
        self,
        disks: collections.abc.Sequence[discover.Disk],
        servers: collections.abc.Iterable[libvirt_servers.Server],
    ) -> Modes:
        """Return the mode of each disk, by UUID; None if unknown.

        It is the configured mode, which the next attachment gets. Without a
        configuration it is the common mode of all vdisks of that type. A disk
        with a vdisk that is attached as a loop device counts as one of block
        devices.
        """
        self._read_log.run(self._read)
        sources = {
            disk.uuid: BLOCK if naming.is_entry(disk.path) else FILE
            for disk in disks
        }
        in_use: dict[str, set[str]] = {FILE: set(), BLOCK: set()}
        own = dict(sources)
        differing = set()
        for server, path, disk in usage.vdisks_in_use(servers, disks):
            source, mode = own[disk], server.caches.get(path)
            if usage.is_made_device(path):
                source = sources[disk] = BLOCK
            if mode is None:
                continue
            in_use[source].add(mode)
            configured = self._configured.get(source)
            if configured and _effective(mode) != configured:
                # a server may have vdisks of both types
                differing.add(subject := (server.uuid, source, mode))
                self._log.log(
                    subject,
                    'Server %s has vdisks with cache mode %s, nova-compute is '
                    'configured for %s=%s: the server or nova-compute has not '
                    'been restarted since the change.',
                    server.uuid,
                    mode,
                    source,
                    configured,
                )
        self._log.clear_except(differing)
        modes = self._configured or {
            source: _effective(source_modes.pop())
            if len(source_modes) == 1
            else None
            for source, source_modes in in_use.items()
        }
        return {uuid: modes[source] for uuid, source in sources.items()}

    def _read(self) -> None:
        try:
            self._configured = self._config()
        except exception.DiskPlacerError:
            self._configured = {}
            raise


def _read_modes(files: collections.abc.Sequence[str]) -> Modes:
    """Return nova-compute's mode of each source type; empty without files.

    :raises DiskPlacerError: the files are invalid.
    """
    if not files:
        return {}
    conf = cfg.ConfigOpts()
    conf.register_opt(cfg.ListOpt('disk_cachemodes', default=[]), 'libvirt')
    try:
        conf([], default_config_files=list(files), default_config_dirs=[])
    except cfg.Error as error:
        raise exception.DiskPlacerError(str(error)) from error
    modes: Modes = dict.fromkeys((FILE, BLOCK), _NOVA_DEFAULT)
    for pair in conf.libvirt.disk_cachemodes:
        source, _, mode = pair.partition('=')
        # Nova ignores unknown sources and modes
        if source in modes and _effective(mode):
            modes[source] = _effective(mode)
    return modes


def _effective(mode: str) -> str | None:
    """Return the mode that QEMU applies, None for an unknown mode."""
    mode = _QEMU_DEFAULT if mode == 'default' else mode
    return mode if mode in traits.CACHE_MODES else None


def common(modes: collections.abc.Iterable[str | None]) -> str | None:
    """Return the common mode of all disks, None if they differ."""
    distinct = set(modes)
    return distinct.pop() if len(distinct) == 1 else None
