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


"""Reads the facts: databases by SQL, disks by their files.

Nothing here asks the project's own code.
"""

import collections
import contextlib
import datetime
import json
import os
import pathlib
import re
import typing

from tools.minicloud import disks
from tools.minicloud import process
from tools.minicloud.cloud import Cloud
from tools.minicloud.state import State
from tools.storm.facts import Disk
from tools.storm.facts import Facts
from tools.storm.facts import File
from tools.storm.facts import Migration
from tools.storm.facts import Provider
from tools.storm.facts import Server
from tools.storm.facts import Snapshot
from tools.storm.facts import Volume

GB = 'CUSTOM_VDISK_GB'
IDENTITY = '.diskplacer.json'
SERVER_XATTR = 'user.diskplacer.server'

_UUID = re.compile(r'[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}')

Row = dict[str, typing.Any]


def query(state: State, database: str, sql: str) -> list[Row]:
    """Return the rows that a query finds.

    :raises pymysql.MySQLError: the database does not answer.
    """
    # only the environment of a cloud has it, unit tests import this module
    import pymysql
    import pymysql.cursors

    connection = pymysql.connect(
        host='127.0.0.1',
        port=state.ports['mariadb'],
        user='openstack',
        password=state.secret,
        database=database,
        cursorclass=pymysql.cursors.DictCursor,
        connect_timeout=5,
        read_timeout=30,
    )
    with contextlib.closing(connection), connection.cursor() as cursor:
        cursor.execute(sql)
        return list(cursor.fetchall())


def read(cloud: Cloud) -> Facts:
    """Read all facts of a cloud."""
    state = cloud.state
    found = [
        disk for host in cloud.hosts for disk in read_disks(state, host.name)
    ]
    return Facts(
        volumes=_volumes(state),
        snapshots=_snapshots(state),
        attached=_attached(state),
        servers=_servers(state),
        migrations=_migrations(state),
        providers=_providers(state),
        disks={disk.uuid: disk for disk in found},
        links={host.name: _links(state, host.name) for host in cloud.hosts},
        guests=_guests(state),
    )


def disk_names(state: State, host: str) -> list[str]:
    """Return the UUIDs of the disks of a host, readable or not, sorted."""
    names = [path.name for path in state.disk_root(host).iterdir()]
    return sorted(name for name in names if _UUID.fullmatch(name))


def read_disks(state: State, host: str) -> list[Disk]:
    """Return the mounted disks of a host, by their own identity files."""
    root = state.disk_root(host)
    found = []
    for entry in sorted(root.iterdir()):
        if os.path.ismount(entry):
            status = os.statvfs(entry)
            identity = json.loads((entry / IDENTITY).read_text())
            found.append(
                Disk(
                    identity['uuid'],
                    host,
                    status.f_blocks * status.f_frsize,
                    tuple(_files(entry / 'vdisks')),
                    (root / f'{entry.name}.draining').exists(),
                )
            )
    return found


def _files(directory: pathlib.Path) -> list[File]:
    found = []
    for path in sorted(directory.iterdir()):
        # it may be deleted meanwhile
        with contextlib.suppress(FileNotFoundError):
            status = path.stat()
            found.append(
                File(
                    path.name,
                    status.st_size,
                    status.st_blocks * 512,
                    _attribute(path),
                )
            )
    return found


def _attribute(path: pathlib.Path) -> str:
    try:
        return os.getxattr(path, SERVER_XATTR).decode()
    except OSError:
        return ''


def _links(state: State, host: str) -> dict[str, str]:
    directory = state.disk_root(host) / 'by-volume'
    if not directory.is_dir():
        return {}
    return {
        path.name: pathlib.Path(os.readlink(path)).parts[-3]
        for path in directory.iterdir()
    }


def _volumes(state: State) -> dict[str, Volume]:
    rows = query(
        state,
        'cinder',
        'SELECT id, _name_id, display_name, status, host, size,'
        ' provider_location, deleted, deleted_at FROM volumes',
    )
    return {
        row['id']: Volume(
            row['id'],
            f'volume-{row["_name_id"] or row["id"]}',
            row['display_name'] or '',
            row['status'],
            (row['host'] or '').partition('@')[0],
            row['size'],
            row['provider_location'] or '',
            bool(row['deleted']),
            _time(row['deleted_at']),
        )
        for row in rows
    }


def _time(value: datetime.datetime | None) -> str:
    return value.isoformat() if value else ''


def _snapshots(state: State) -> dict[str, Snapshot]:
    rows = query(
        state,
        'cinder',
        'SELECT id, volume_id, status, volume_size, provider_location,'
        ' deleted FROM snapshots',
    )
    return {
        row['id']: Snapshot(
            row['id'],
            row['volume_id'],
            row['status'],
            row['volume_size'],
            row['provider_location'] or '',
            bool(row['deleted']),
        )
        for row in rows
    }


def _attached(state: State) -> frozenset[tuple[str, str]]:
    """Return what both Cinder and Nova hold to be attached."""
    cinder = query(
        state,
        'cinder',
        'SELECT volume_id, instance_uuid FROM volume_attachment'
        " WHERE deleted = 0 AND attach_status = 'attached'",
    )
    nova = query(
        state,
        'nova_cell1',
        'SELECT volume_id, instance_uuid FROM block_device_mapping'
        ' WHERE deleted = 0 AND volume_id IS NOT NULL',
    )
    pairs = [
        {(row['volume_id'], row['instance_uuid']) for row in rows}
        for rows in (cinder, nova)
    ]
    return frozenset(pairs[0] & pairs[1])


def _servers(state: State) -> dict[str, Server]:
    rows = query(
        state,
        'nova_cell1',
        'SELECT i.uuid, i.vm_state, i.task_state, i.host, i.deleted,'
        ' i.launched_at, e.flavor'
        ' FROM instances i LEFT JOIN instance_extra e'
        ' ON e.instance_uuid = i.uuid',
    )
    return {row['uuid']: _server(row) for row in rows}


def _server(row: Row) -> Server:
    flavor = json.loads(row['flavor'] or '{}').get('cur') or {}
    specs = flavor.get('nova_object.data', {}).get('extra_specs') or {}
    return Server(
        row['uuid'],
        row['vm_state'] or '',
        row['task_state'] or '',
        row['host'] or '',
        int(specs.get('diskplacer:vdisks', 0)),
        int(specs.get('diskplacer:vdisk_gb', 0)),
        specs.get('diskplacer:mapping', ''),
        bool(row['deleted']),
        _time(row['launched_at']),
    )


def _migrations(state: State) -> dict[str, Migration]:
    rows = query(
        state,
        'nova_cell1',
        'SELECT uuid, status, instance_uuid FROM migrations',
    )
    return {
        row['uuid']: Migration(row['status'], row['instance_uuid'])
        for row in rows
    }


def _providers(state: State) -> dict[str, Provider]:
    inventories = query(
        state,
        'placement',
        'SELECT p.uuid, i.total, i.reserved FROM inventories i'
        ' JOIN resource_providers p ON p.id = i.resource_provider_id'
        ' JOIN resource_classes c ON c.id = i.resource_class_id'
        f" WHERE c.name = '{GB}'",
    )
    allocations = query(
        state,
        'placement',
        'SELECT p.uuid, a.consumer_id, a.used FROM allocations a'
        ' JOIN resource_providers p ON p.id = a.resource_provider_id'
        ' JOIN resource_classes c ON c.id = a.resource_class_id'
        f" WHERE c.name = '{GB}'",
    )
    claims: dict[str, dict[str, int]] = collections.defaultdict(dict)
    for row in allocations:
        claims[row['uuid']][row['consumer_id']] = int(row['used'])
    return {
        row['uuid']: Provider(
            row['uuid'],
            int(row['total']),
            int(row['reserved']),
            claims[row['uuid']],
        )
        for row in inventories
    }


def _guests(state: State) -> dict[str, dict[str, str]]:
    """Return the disk of each vdisk that QEMU has open, by server and name."""
    found = {}
    for record in (state.path / 'libvirt').glob('*/run/qemu/*.pid'):
        # it may end meanwhile
        with contextlib.suppress(OSError, ValueError):
            process_dir = pathlib.Path('/proc', record.read_text().strip())
            words = (process_dir / 'cmdline').read_bytes().split(b'\0')
            server = words[words.index(b'-uuid') + 1].decode()
            found[server] = _open_vdisks(process_dir)
    return found


def _open_vdisks(process_dir: pathlib.Path) -> dict[str, str]:
    found: dict[str, set[str]] = collections.defaultdict(set)
    for descriptor in (process_dir / 'fd').iterdir():
        with contextlib.suppress(FileNotFoundError):
            path = pathlib.Path(os.readlink(descriptor))
            if path.parent.name == 'vdisks':
                # of a deleted file the path says so
                name, _, deleted = path.name.partition(' ')
                found[name].add(path.parts[-3] + deleted)
    return {name: ' and '.join(sorted(on)) for name, on in found.items()}


def below_mount_point(point: pathlib.Path) -> list[str]:
    """Return what is in the directory of a disk that is not mounted."""
    return [str(path.relative_to(point)) for path in sorted(point.rglob('*'))]


def device(state: State, point: pathlib.Path) -> str:
    """Return the block device that is mounted at a disk."""
    if str(point) not in disks.mount_points(state):
        raise LookupError(f'{point} is not mounted')
    return process.run('findmnt', '-no', 'SOURCE', str(point)).strip()
