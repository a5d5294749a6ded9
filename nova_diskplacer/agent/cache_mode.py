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

"""With which host cache mode vdisks are attached on this host.

Nova has one for all volumes that are files and one for all that are block
devices, in the configuration of nova-compute.
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
from nova_diskplacer.placement import traits

LOG = logging.getLogger(__name__)

# What Nova calls that by which vdisks are attached.
FILE = 'file'
BLOCK = 'block'

# How Nova attaches a volume for which nothing is configured.
_UNSET = 'none'

# What QEMU takes where it is left to choose.
_QEMU_DEFAULT = 'writeback'

Modes = dict[str, str | None]


class CacheModes:
    """Knows the cache mode of each disk.

    :param files: the configuration files of nova-compute; one that does not
        exist counts for nothing.
    """

    def __init__(self, files: collections.abc.Iterable[str]) -> None:
        self._watched = nova_conf.ReloadingConfig(tuple(files), configured)
        self._reading = log_once.RetryLogger(
            'The cache mode of vdisks cannot be read from [libvirt] '
            'disk_cachemodes of nova-compute',
            'The cache mode of vdisks can be read',
        )
        self._configured: Modes = {}
        self._log = log_once.ChangeLogger(LOG)

    def of(
        self,
        disks: collections.abc.Sequence[discover.Disk],
        servers: collections.abc.Iterable[libvirt_servers.Server],
    ) -> Modes:
        """Return the mode of each disk, by UUID; None where it is not known.

        It is the configured one, since that is what the next server gets.
        Where there is no configuration it is what all vdisks of that type
        have.
        """
        self._reading.run(self._read)
        sources = {
            disk.uuid: BLOCK if naming.is_entry(disk.path) else FILE
            for disk in disks
        }
        shown: dict[str, set[str]] = {FILE: set(), BLOCK: set()}
        for server, path, disk in usage.vdisks_in_use(servers, disks):
            source, mode = sources[disk], server.caches.get(path)
            if mode is not None:
                shown[source].add(mode)
                self._compare(server.uuid, source, mode)
        modes = self._configured or {
            source: known(found.pop()) if len(found) == 1 else None
            for source, found in shown.items()
        }
        return {uuid: modes[source] for uuid, source in sources.items()}

    def _compare(self, server: str, source: str, mode: str) -> None:
        configured = self._configured.get(source)
        if configured and known(mode) != configured:
            self._log.log(
                (server, mode),
                'Server %s has vdisks with cache mode %s, nova-compute is '
                'configured for %s=%s: either has not been restarted since.',
                server,
                mode,
                source,
                configured,
            )

    def _read(self) -> None:
        try:
            self._configured = self._watched.read()
        except exception.DiskPlacerError:
            self._configured = {}
            raise


def configured(files: collections.abc.Sequence[str]) -> Modes:
    """Return the mode of each type of source that nova-compute is told.

    It is told nothing where there are no files.

    :raises DiskPlacerError: the files are no configuration.
    """
    if not files:
        return {}
    conf = cfg.ConfigOpts()
    conf.register_opt(cfg.ListOpt('disk_cachemodes', default=[]), 'libvirt')
    try:
        conf([], default_config_files=list(files), default_config_dirs=[])
    except cfg.Error as error:
        raise exception.DiskPlacerError(str(error)) from error
    modes: Modes = dict.fromkeys((FILE, BLOCK), _UNSET)
    for pair in conf.libvirt.disk_cachemodes:
        source, _, mode = pair.partition('=')
        # Nova ignores what it does not know
        if source in modes and known(mode):
            modes[source] = known(mode)
    return modes


def known(mode: str) -> str | None:
    """Return what a cache mode means, None if it is none."""
    mode = _QEMU_DEFAULT if mode == 'default' else mode
    return mode if mode in traits.CACHE_MODES else None


def common(modes: collections.abc.Iterable[str | None]) -> str | None:
    """Return the mode that all disks have, None if they differ."""
    found = set(modes)
    return found.pop() if len(found) == 1 else None
