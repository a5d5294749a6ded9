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


"""Stands in for iSCSI between hosts, where the machine's kernel has none.

A target is an NBD server of QEMU, and a session an NBD client of QEMU, which
serves the device as a file by FUSE, with a loop device on it. Around them are
the interfaces of Cinder's target drivers, of os-brick, of the ACLs of LIO and
of udev's names of devices. As in the kernel, both outlive cinder-volume, and
what one that was killed has left of them can be gone on with, or removed.

``tools.minicloud.with_iscsi`` runs a program with this in place of iSCSI.
"""

import dataclasses
import json
import os
import pathlib
import typing

from cinder.volume.targets import iscsi
from os_brick import exception
from os_brick import initiator
from os_brick.initiator import connector
from os_brick.initiator.connectors import base
from oslo_config import cfg

from cinder_vdisk_mapper import driver
from nova_diskplacer.disks import links
from nova_diskplacer.host import lio
from tools.minicloud import disks
from tools.minicloud import fuse
from tools.minicloud import hypervisor
from tools.minicloud import process
from tools.minicloud import state as states

_MODULE = 'tools.minicloud.iscsi'

# With more than one request at once QEMU 7.2's export mixes up concurrent
# writes.
_REQUESTS = 1
# Of hosts with fake guests, as Nova's fake driver has it.
_FAKE_INITIATOR = 'fake'


@dataclasses.dataclass(frozen=True)
class Target:
    """A target, and the only initiator that may log in, '' for none."""

    portal: str
    initiator: str = ''
    user: str = ''
    secret: str = ''


class Targets:
    """The targets of a cloud."""

    def __init__(self, state: states.State) -> None:
        self._state = state
        self._directory = state.path / 'targets'

    def serve(self, iqn: str, portal: str, device: str) -> None:
        """Serve a device, which others may write to as well."""
        self._directory.mkdir(exist_ok=True)
        self._server(iqn, device).start()
        self._server(iqn, device).wait_ready(60)
        self._write(iqn, Target(portal))

    def is_served(self, iqn: str) -> bool:
        """Return whether there is a target, and its server runs."""
        return self._file(iqn).exists() and self._server(iqn).running()

    def remove(self, iqn: str) -> None:
        """Remove a target, if there is one; its sessions lose it."""
        self._server(iqn).stop()
        self.socket(iqn).unlink(missing_ok=True)
        self._file(iqn).unlink(missing_ok=True)

    def admit(self, iqn: str, initiator: str, user: str, secret: str) -> None:
        """Let an initiator alone log in."""
        portal = self.read(iqn).portal
        self._write(iqn, Target(portal, initiator, user, secret))

    def read(self, iqn: str) -> Target:
        """Return a target.

        :raises FileNotFoundError: there is none.
        """
        return Target(**json.loads(self._file(iqn).read_text()))

    def socket(self, iqn: str) -> pathlib.Path:
        """Return the path of the socket where a target is served."""
        return self._directory / f'{iqn.rpartition(":")[2]}.socket'

    def _write(self, iqn: str, target: Target) -> None:
        self._file(iqn).write_text(json.dumps(dataclasses.asdict(target)))

    def _file(self, iqn: str) -> pathlib.Path:
        return self._directory / f'{iqn}.json'

    def _server(self, iqn: str, device: str = '') -> process.Process:
        disks.run_dir(self._state).mkdir(exist_ok=True)
        socket = self.socket(iqn)
        return process.Process(
            f'target-{iqn.rpartition(":")[2]}',
            [
                'qemu-nbd',
                f'--socket={socket}',
                '--export-name=vdisk',
                '--persistent',
                '--shared=4',
                '--cache=none',
                '--aio=native',
                '--image-opts',
                f'driver=raw,file.driver=host_device,file.filename={device},'
                'file.locking=off,file.cache.direct=on,file.aio=native',
            ],
            disks.run_dir(self._state),
            self._state.logs,
            ready=socket.exists,
        )


class TargetDriver(iscsi.ISCSITarget):
    """Cinder's target driver."""

    def create_iscsi_target(
        self,
        name: str,
        tid: int,
        lun: int,
        path: str,
        chap_auth: typing.Any = None,
        **kwargs: typing.Any,
    ) -> int:
        portals = kwargs['portals_ips'], kwargs['portals_port']
        _targets().serve(name, f'{portals[0][0]}:{portals[1]}', path)
        return 0

    def remove_iscsi_target(
        self,
        tid: int,
        lun: int,
        vol_id: str,
        vol_name: str,
        **kwargs: typing.Any,
    ) -> None:
        prefix = self.configuration.safe_get('target_prefix')
        _targets().remove(f'{prefix}{vol_name}')

    def initialize_connection(
        self, volume: typing.Any, connector: dict[str, typing.Any]
    ) -> typing.Any:
        iqn = volume['provider_location'].split()[1]
        _, user, secret = volume['provider_auth'].split()
        _targets().admit(iqn, connector['initiator'], user, secret)
        return super().initialize_connection(volume, connector)

    def _get_iscsi_target(self, context: typing.Any, vol_id: str) -> int:
        return 0

    def _get_target_and_lun(
        self, context: typing.Any, volume: typing.Any
    ) -> tuple[int, int]:
        return 0, 0

    def _get_target(self, iqn: str) -> int:
        return 0


class Connector(base.BaseLinuxConnector):
    """The initiator of a host."""

    def connect_volume(
        self, connection_properties: dict[str, typing.Any]
    ) -> dict[str, str]:
        iqn = connection_properties['target_iqn']
        portal = connection_properties['target_portal']
        try:
            target = _targets().read(iqn)
        except FileNotFoundError:
            raise exception.FailedISCSITargetPortalLogin from None
        given = Target(
            portal,
            target.initiator,
            connection_properties.get('auth_username', ''),
            connection_properties.get('auth_password', ''),
        )
        mine = hypervisor.initiator(cfg.CONF.host), _FAKE_INITIATOR
        if given != target or target.initiator not in mine:
            raise exception.FailedISCSITargetPortalLogin
        device = pathlib.Path(links.device_of(portal, iqn, 0))
        file = self._serve(iqn)
        (path,) = disks.attached(file) or [disks.attach(file)]
        if os.path.realpath(device) != path:
            device.parent.mkdir(parents=True, exist_ok=True)
            device.unlink(missing_ok=True)
            device.symlink_to(path)
        return {'type': 'block', 'path': os.path.realpath(device)}

    def _serve(self, iqn: str) -> pathlib.Path:
        """Serve the file of a session, if nobody does; returns its path."""
        state = _state()
        file = self._file(iqn)
        file.parent.mkdir(exist_ok=True)
        if not file.exists():
            file.touch()
        fuse.mount(
            state,
            file,
            [
                'qemu-storage-daemon',
                '--blockdev',
                'driver=nbd,node-name=target,export=vdisk,server.type=unix,'
                f'server.path={_targets().socket(iqn)},reconnect-delay=86400',
                '--export',
                'type=fuse,id=export,node-name=target,writable=on,'
                f'mountpoint={file}',
            ],
            _REQUESTS,
        )
        return file

    def disconnect_volume(
        self,
        connection_properties: dict[str, typing.Any],
        device_info: object,
        force: bool = False,
        ignore_errors: bool = False,
        is_disconnect_call: bool = False,
    ) -> None:
        iqn = connection_properties['target_iqn']
        portal = connection_properties['target_portal']
        file = self._file(iqn)
        for path in disks.attached(file) if file.exists() else ():
            process.run('losetup', '--detach', path)
        pathlib.Path(links.device_of(portal, iqn, 0)).unlink(missing_ok=True)
        process.Process(
            file.name, [], disks.run_dir(_state()), _state().logs
        ).stop()
        file.unlink(missing_ok=True)

    def _file(self, iqn: str) -> pathlib.Path:
        name = f'session-{cfg.CONF.host}-{iqn.rpartition(":")[2]}'
        return _state().path / 'sessions' / name

    def get_volume_paths(
        self, connection_properties: dict[str, typing.Any]
    ) -> list[str]:
        return []

    def get_search_path(self) -> None:
        return None

    def extend_volume(
        self, connection_properties: dict[str, typing.Any]
    ) -> None:
        raise NotImplementedError

    def get_all_available_volumes(
        self, connection_properties: typing.Any = None
    ) -> list[str]:
        return []


def install() -> None:
    """Use this in place of iSCSI in this process."""
    mapping = connector.get_connector_mapping()
    mapping[initiator.ISCSI] = f'{_MODULE}.{Connector.__name__}'
    lio.admit = lambda *args: _targets().admit(*args)
    lio.is_whole = lambda iqn: _targets().is_served(iqn)
    make = driver.VDiskMapperDriver.__init__

    def make_with_targets(self, *args, **kwargs):  # type: ignore
        make(self, *args, **kwargs)
        self.target_mapping['lioadm'] = f'{_MODULE}.{TargetDriver.__name__}'

    driver.VDiskMapperDriver.__init__ = make_with_targets


def _state() -> states.State:
    """Return the state of the cloud that this service is of."""
    # hosts/<host>/cinder
    state = states.load(pathlib.Path(cfg.CONF.state_path).parents[2])
    assert state
    return state


def _targets() -> Targets:
    return Targets(_state())
