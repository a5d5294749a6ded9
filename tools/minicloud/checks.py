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


"""Where vdisks really are, by libvirt and the filesystems alone.

Nothing here asks the project's own code, so that it can judge it.
"""

import collections
import collections.abc
import json
import os
import pathlib
import xml.etree.ElementTree

from tools.minicloud import hypervisor
from tools.minicloud import process
from tools.minicloud.cloud import Cloud

Disks = dict[str, str]

IDENTITY = '.diskplacer.json'


def disk_of(path: pathlib.Path) -> str:
    """Return the identity of the disk whose filesystem holds a file.

    The filesystem is found by device number in the mount table, not by path.
    """
    device = os.stat(path).st_dev
    number = f'{os.major(device)}:{os.minor(device)}'
    for line in pathlib.Path('/proc/self/mountinfo').read_text().splitlines():
        fields = line.split()
        if fields[2] == number:
            identity = json.loads(
                (pathlib.Path(fields[4]) / IDENTITY).read_text()
            )
            return str(identity['uuid'])
    raise LookupError(f'{path}: filesystem {number} is not mounted')


def by_files(cloud: Cloud, host: str) -> Disks:
    """Return {volume id: disk} of all vdisk files on a host's disks."""
    root = cloud.state.disk_root(host)
    return {
        path.name.removeprefix('volume-'): disk_of(path)
        for path in root.glob('*/vdisks/volume-*')
    }


def domain_xml(cloud: Cloud, server: str) -> str:
    """Return the XML of a guest, from the libvirtd of its host."""
    host = cloud.api.server(server)['OS-EXT-SRV-ATTR:host']
    return hypervisor.virsh(cloud.state, host, 'dumpxml', server)


def by_domain(cloud: Cloud, server: str) -> Disks:
    """Return {volume id: disk} of a guest, by libvirt's domain XML."""
    text = domain_xml(cloud, server)
    found = {}
    for disk in xml.etree.ElementTree.fromstring(text).iter('disk'):
        serial, source = disk.find('serial'), disk.find('source')
        if serial is not None and source is not None:
            found[str(serial.text)] = disk_of(_file_of(source.attrib))
    return found


def _file_of(source: collections.abc.Mapping[str, str]) -> pathlib.Path:
    """Return the file of a vdisk that is attached as such, or by a loop."""
    if 'file' in source:
        return pathlib.Path(source['file'])
    device = os.path.basename(os.path.realpath(source['dev']))
    backing = pathlib.Path('/sys/block', device, 'loop/backing_file')
    return pathlib.Path(backing.read_text().rstrip('\n'))


def vendor_data(cloud: Cloud, host: str, server: str) -> str:
    """Return what cloud-init finds in the vendor data of a config drive."""
    image = cloud.state.host_dir(host) / f'nova/instances/{server}/disk.config'
    text = process.run(
        'isoinfo',
        '-R',
        '-i',
        str(image),
        '-x',
        '/openstack/latest/vendor_data2.json',
    )
    # Nova writes {} if the service does not answer
    return json.loads(text)['cloud-init'] or ''


def claims(cloud: Cloud, server: str) -> dict[str, int]:
    """Return {disk: GiB} that a server has claimed in Placement."""
    return {
        provider: resources['CUSTOM_VDISK_GB']
        for provider, resources in cloud.api.allocations(server).items()
        if 'CUSTOM_VDISK_GB' in resources
    }


def claimed_disks(
    actual: Disks, claimed: dict[str, int], vdisk_gb: int
) -> dict[str, str | None]:
    """Match every vdisk with a claim: on its own disk if there is one."""
    left = collections.Counter(
        {disk: gb // vdisk_gb for disk, gb in claimed.items()}
    )
    matched: dict[str, str | None] = {}
    for volume, disk in actual.items():
        if left[disk] > 0:
            left[disk] -= 1
            matched[volume] = disk
    for volume in actual:
        if volume not in matched:
            disk = next(iter(+left), None)
            if disk is not None:
                left[disk] -= 1
            matched[volume] = disk
    return matched


def mapped_as_asked(mapping: str, disks: list[str]) -> bool:
    """Return whether disks are distinct, or (consolidated) all the same."""
    wanted = len(disks) if mapping == 'round_robin' else 1
    return bool(disks) and len(set(disks)) == wanted
