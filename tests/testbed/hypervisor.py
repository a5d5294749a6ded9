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

"""libvirt in the guest: servers are paused and never execute anything."""

import os
import pathlib
import shutil
import subprocess
import tempfile
import time
import uuid

import libvirt

from tests import shell
from tests import systemd

# Seconds to wait for libvirt, and for what QEMU has to do.
PATIENCE = 300

# There is no log daemon, and the vdisks are root's.
CONFIG = """
stdio_handler = "file"
security_driver = "none"
user = "root"
group = "root"
"""

SERVER = """
<domain type='qemu'>
  <name>{name}</name>
  <uuid>{uuid}</uuid>
  <metadata>
    <nova:instance
        xmlns:nova="http://openstack.org/xmlns/libvirt/nova/1.1">
      <nova:flavor name="m1"><nova:extraSpecs/></nova:flavor>
    </nova:instance>
  </metadata>
  <memory unit='MiB'>16</memory>
  <vcpu>1</vcpu>
  {settings}
  <os><type machine='q35'>hvm</type></os>
  <devices>
    <emulator>/usr/bin/qemu-system-x86_64</emulator>
    <controller type='usb' model='none'/>
    <memballoon model='none'/>
    {devices}
  </devices>
</domain>
"""

DISK = """
<disk type='{kind}' device='disk'>
  <driver name='qemu' type='raw' cache='none' {driver}/>
  <source {attribute}='{path}'/>
  <target dev='{target}' bus='virtio'/>
</disk>
"""

# All that it takes, and nothing else that the guest has units of.
UNITS = {
    'dbus.socket': """
[Unit]
DefaultDependencies=no
[Socket]
ListenStream=/run/dbus/system_bus_socket
""",
    'dbus.service': """
[Unit]
DefaultDependencies=no
Requires=dbus.socket
After=dbus.socket
[Service]
Type=notify
TimeoutStartSec=infinity
ExecStart=dbus-daemon --system --address=systemd: --nofork --nopidfile \\
    --systemd-activation
""",
    'systemd-machined.service': """
[Unit]
DefaultDependencies=no
Requires=dbus.service
After=dbus.service
[Service]
Type=dbus
TimeoutStartSec=infinity
BusName=org.freedesktop.machine1
ExecStart=/usr/lib/systemd/systemd-machined
""",
    'libvirtd.service': """
[Unit]
DefaultDependencies=no
Requires=systemd-machined.service
After=systemd-machined.service
[Service]
Type=notify
TimeoutStartSec=infinity
ExecStart=libvirtd
KillMode=process
Delegate=yes
""",
}


def _configure():
    pathlib.Path('/etc/libvirt').mkdir(exist_ok=True)
    pathlib.Path('/etc/libvirt/qemu.conf').write_text(CONFIG)
    # libvirtd wants them to be there even if it is told to use others
    shell.run('groupadd', '--system', '--force', 'kvm')
    shell.run('sh', '-c', 'id libvirt-qemu || useradd --system libvirt-qemu')


def _connect(case, uri):
    case.uri = uri
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            case.libvirt = libvirt.open(uri)
            break
        except libvirt.libvirtError:
            # the socket is there before anybody listens
            if time.monotonic() > deadline:
                raise
        time.sleep(0.2)
    case.addClassCleanup(case.libvirt.close)


def server(name, settings='', devices=''):
    """Return the XML of a small server that Nova could have made.

    :param settings: more elements of the domain, in XML.
    :param devices: more devices.
    """
    return SERVER.format(
        name=name, uuid=uuid.uuid4(), settings=settings, devices=devices
    )


def disk(path, kind, target='vda', driver=''):
    """Return the XML of a vdisk.

    :param kind: file or block.
    :param driver: more attributes of its driver.
    """
    return DISK.format(
        kind=kind,
        attribute='dev' if kind == 'block' else kind,
        path=path,
        target=target,
        driver=driver,
    )


def destroy(domain):
    """End a server; libvirt itself waits for QEMU's end for moments only."""
    deadline = time.monotonic() + PATIENCE
    ended = ()
    while True:
        try:
            domain.destroy()
            return
        except libvirt.libvirtError as error:
            code = error.get_error_code()
            if code in ended:
                return
            if (
                code != libvirt.VIR_ERR_SYSTEM_ERROR
                or time.monotonic() > deadline
            ):
                raise
            # it may end meanwhile
            ended = (
                libvirt.VIR_ERR_OPERATION_INVALID,
                libvirt.VIR_ERR_NO_DOMAIN,
            )
        time.sleep(0.2)


def start(case):
    """Start libvirt for a class of tests, which has its URI and ``libvirt``.

    There is no systemd in the guest: libvirt makes cgroups itself.
    """
    _configure()
    daemon = subprocess.Popen(['libvirtd'])
    case.addClassCleanup(daemon.wait)
    case.addClassCleanup(daemon.terminate)
    deadline = time.monotonic() + PATIENCE
    while not os.path.exists('/run/libvirt/libvirt-sock'):
        assert daemon.poll() is None and time.monotonic() < deadline
        time.sleep(0.1)
    _connect(case, 'qemu:///system')


def start_with_systemd(case):
    """Start libvirt as hosts have it: systemd makes the cgroups of servers.

    The class has ``systemd`` beside what ``start`` gives it.
    """
    _configure()
    directory = tempfile.mkdtemp()
    case.addClassCleanup(shutil.rmtree, directory)
    for name, text in UNITS.items():
        pathlib.Path(directory, name).write_text(text)
    # it has all of the guest's cgroups
    case.systemd = systemd.Systemd(directory, 'libvirtd.service', home='')
    case.addClassCleanup(case.systemd.cleanUp)
    case.systemd.setUp()
    case.systemd.wait('active', PATIENCE)
    path = case.systemd.path('/run/libvirt/libvirt-sock')
    _connect(case, f'qemu+unix:///system?socket={path}')
