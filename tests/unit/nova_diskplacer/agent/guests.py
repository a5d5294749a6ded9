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

"""Servers as libvirt keeps and describes them, for tests."""

from nova_diskplacer.agent import numa_pinning
from nova_diskplacer.host import cpus
from nova_diskplacer.host import libvirt_servers

UUID = '5f0c0f36-8b8e-4f7e-8d54-0a1a4c3d2e10'


class Guest:
    """A running server; has what is used of libvirt's ``virDomain``."""

    def __init__(
        self,
        uuid=UUID,
        specs=None,
        vcpus=2,
        iothreads=1,
        confined=None,
        extra='',
        paths=(),
    ):
        self.uuid = uuid
        self.specs = (
            {'diskplacer:numa': 'required'} if specs is None else specs
        )
        self.vcpus = vcpus
        self.iothreads = iothreads
        self.confined = confined
        self.extra = extra
        self.paths = paths
        self.run = 3
        self.start()

    def start(self):
        """Be as Nova describes it, as after a hard reboot."""
        self.run += 1
        self.pins = {}
        self.mark = None

    @property
    def threads(self):
        return (
            *(numa_pinning.Thread('vcpu', one) for one in range(self.vcpus)),
            numa_pinning.Thread('emulator', 0),
            *(
                numa_pinning.Thread('iothread', one + 1)
                for one in range(self.iothreads)
            ),
        )

    @property
    def state(self):
        return self.pins, self.mark

    def allowed(self, host):
        """Return the CPUs that each thread may use."""
        whole = host.online if self.confined is None else self.confined
        return {
            thread: self.pins.get(thread, whole) & host.online
            for thread in self.threads
        }

    def apply(self, steps):
        for step in steps:
            if isinstance(step, numa_pinning.SetMetadata):
                self.mark = step.node
            else:
                self.pins[step.thread] = step.cpus

    def seen(self):
        return libvirt_servers.parse(self.XMLDesc(), True)

    def XMLDesc(self):  # noqa: N802
        pins = ''.join(
            f'<{kind}pin cpuset="{cpus.render(allowed)}"'
            + (f' {kind}="{number}"/>' if kind != 'emulator' else '/>')
            for (kind, number), allowed in self.pins.items()
        )
        specs = ''.join(
            f'<nova:extraSpec name="{name}">{value}</nova:extraSpec>'
            for name, value in self.specs.items()
        )
        mark = confined = threads = ''
        if self.mark is not None:
            mark = (
                '<diskplacer:affinity '
                f'xmlns:diskplacer="{numa_pinning.NAMESPACE}" '
                f'node="{self.mark}"/>'
            )
        if self.confined is not None:
            confined = f'cpuset="{cpus.render(self.confined)}"'
        if self.iothreads:
            threads = f'<iothreads>{self.iothreads}</iothreads>'
        disks = ''.join(
            f'<disk type="file" device="disk"><source file="{path}"/></disk>'
            for path in self.paths
        )
        return f"""
<domain type='kvm' id='{self.run}'>
  <name>instance-00000001</name>
  <uuid>{self.uuid}</uuid>
  <metadata>
    <nova:instance
        xmlns:nova="http://openstack.org/xmlns/libvirt/nova/1.1">
      <nova:flavor name="m1" id="7">
        <nova:extraSpecs>{specs}</nova:extraSpecs>
      </nova:flavor>
    </nova:instance>
    {mark}
  </metadata>
  <vcpu placement='static' {confined}>{self.vcpus}</vcpu>
  {threads}
  <cputune>{pins}</cputune>
  {self.extra}
  <devices>{disks}</devices>
</domain>
"""

    def ID(self):  # noqa: N802
        return self.run

    def pinVcpuFlags(self, number, allowed, flags):  # noqa: N802
        self._pin('vcpu', number, allowed)

    def pinEmulator(self, allowed, flags):  # noqa: N802
        self._pin('emulator', 0, allowed)

    def pinIOThread(self, number, allowed, flags):  # noqa: N802
        self._pin('iothread', number, allowed)

    def setMetadata(self, kind, text, prefix, uri, flags):  # noqa: N802
        assert uri == numa_pinning.NAMESPACE
        self.mark = int(text.split('"')[1]) if text else None

    def _pin(self, kind, number, allowed):
        self.pins[numa_pinning.Thread(kind, number)] = frozenset(
            cpu for cpu, may in enumerate(allowed) if may
        )
