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

"""Two servers on one disk, one of which hammers it."""

import configparser
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import urllib.request

from prometheus_client import parser

from nova_diskplacer.host import block_queue
from tests.e2e import base
from tools.minicloud import hypervisor
from tools.minicloud import state

# A process enters a cgroup, then writes 25 MB/s to a file.
HAMMER = """
import mmap, os, sys, time
with open(sys.argv[1], 'w') as stream:
    stream.write(str(os.getpid()))
file = os.open(sys.argv[2], os.O_RDWR | os.O_CREAT | os.O_DIRECT)
buffer = mmap.mmap(-1, 1 << 19)
while True:
    for place in range(128):
        os.pwritev(file, [buffer], place << 19)
        time.sleep(0.02)
"""
DEFAULT = 100
# of the lowest of ten classes
LOWEST = 10
SCALE_MB = 10


class ContentionTest(base.TestCase):
    def setUp(self):
        super().setUp()
        self.host = self.cloud.libvirt_host
        self.agent = f'diskplacer-agent@{self.host}'
        self.port = self.configure()
        flavor = self.api.create_flavor(
            'contending',
            vdisks=1,
            vdisk_gb=1,
            media='ssd',
            mapping='consolidated',
        )
        self.addCleanup(self.api.delete, 'compute', f'/flavors/{flavor}')
        self.addCleanup(self._clean)
        self.hog, self.victim = (
            self.api.create_server(
                name, flavor, self.cloud.image, host=self.host
            )
            for name in ('hog', 'victim')
        )
        for server in (self.hog, self.victim):
            self.api.wait_server(server)
        (self.disk,) = {
            *self.disks_of(self.hog).values(),
            *self.disks_of(self.victim).values(),
        }
        self.path = self.cloud.state.disk_root(self.host) / self.disk
        number = os.stat(self.path).st_dev
        self.number = f'{os.major(number)}:{os.minor(number)}'
        self.device = os.path.basename(
            os.path.realpath(f'/sys/dev/block/{self.number}')
        )
        before = block_queue.read(self.device).values['scheduler']
        self.addCleanup(block_queue.write, self.device, 'scheduler', before)

    def configure(self):
        """Have the agent weigh; returns the port of its metrics."""
        path = self.cloud.state.host_dir(self.host) / 'diskplacer.conf'
        before = path.read_text()
        self.addCleanup(self.cloud.restart, self.agent)
        self.addCleanup(path.write_text, before)
        config = configparser.ConfigParser(interpolation=None)
        config.read_string(before)
        (port,) = state.free_ports(['metrics']).values()
        config['diskplacer_monitor'] = {'metrics_port': port}
        config['diskplacer_weights'] = {'mode': 'on', 'scale_mb': SCALE_MB}
        with path.open('w') as stream:
            config.write(stream)
        self.cloud.restart(self.agent)
        return port

    def blkiotune(self, server):
        """Return the default weight of a server's cgroup, from virsh."""
        text = hypervisor.virsh(self.cloud.state, 'blkiotune', server)
        return int(re.search(r'^weight\s*: (\d+)', text, re.M)[1])

    def cgroup(self, server):
        """Return the cgroup of a server, as the machine has it."""
        name = hypervisor.virsh(self.cloud.state, 'domname', server).strip()
        number = hypervisor.virsh(self.cloud.state, 'domid', server).strip()
        # the name may be cut
        pid = (
            self.cloud.state.path / 'libvirt' / 'run' / 'qemu' / f'{name}.pid'
        ).read_text()
        text = pathlib.Path(f'/proc/{pid.strip()}/cgroup').read_text()
        (line,) = re.findall(r'^\d+:blkio:(.*)$', text, re.M)
        path = pathlib.Path(f'/sys/fs/cgroup/blkio{line}')
        while f'qemu-{number}-' not in path.name:
            path = path.parent
        return path

    def on_disk(self, server):
        """Return the weight of a server on the disk, as the kernel has it."""
        return self.weight_in(self.cgroup(server))

    def weight_in(self, cgroup):
        """Return the weight of a cgroup on the disk."""
        text = (cgroup / 'blkio.bfq.weight_device').read_text()
        found = re.search(rf'^{self.number} (\d+)$', text, re.M)
        return int(found[1]) if found else DEFAULT

    def hammer(self, server):
        """Have a process in a server's cgroup write to the disk."""
        file = self.path / 'hammered'
        process = subprocess.Popen(
            [
                sys.executable,
                '-c',
                HAMMER,
                self.cgroup(server) / 'cgroup.procs',
                file,
            ]
        )

        def end():
            process.kill()
            process.wait()
            file.unlink(missing_ok=True)

        self.addCleanup(end)
        return end

    def told(self, server):
        """Return (class, weight) of a server on the disk, by the agent."""
        text = self.cloud.manage(
            self.host, 'top', '--once', '--format', 'json'
        )
        pairs = json.loads(text)['pairs']
        places = zip(pairs['servers'], pairs['disks'], strict=True)
        place = list(places).index((server, self.disk))
        return pairs['classes'][place], pairs['weights'][place]

    def error(self):
        """Return why nothing honours weights on the disk, by the agent."""
        text = self.cloud.manage(
            self.host, 'top', '--once', '--format', 'json'
        )
        disks = {one['uuid']: one for one in json.loads(text)['disks']}
        return disks[self.disk]['error']

    def measured(self, name):
        """Return the samples of a metric of the agent's, on the disk."""
        url = f'http://127.0.0.1:{self.port}/metrics'
        with urllib.request.urlopen(url) as answer:
            families = parser.text_string_to_metric_families(
                answer.read().decode()
            )
            return [
                sample
                for family in families
                for sample in family.samples
                if sample.name == name and self.disk in sample.labels.values()
            ]

    def test_weights_follow_and_are_restored(self):
        self.eventually('what is missing', lambda: 'bfq' in self.error())
        block_queue.write(self.device, 'scheduler', 'bfq')
        self.eventually('weights do something', lambda: not self.error())
        calm = self.hammer(self.hog)
        self.eventually(
            'hog in the lowest class',
            lambda: self.on_disk(self.hog) == LOWEST,
        )
        self.eventually(
            'the agent tells it',
            lambda: self.told(self.hog) == (1.0, LOWEST),
        )
        for server in (self.hog, self.victim):
            self.assertEqual(DEFAULT, self.blkiotune(server))
        self.assertEqual(DEFAULT, self.on_disk(self.victim))
        self.eventually(
            'metrics show it',
            lambda: (
                LOWEST
                in [
                    one.value
                    for one in self.measured('diskplacer_server_weight')
                ]
            ),
        )
        calm()
        self.recovers()
        # a new QEMU has a new cgroup
        calm = self.hammer(self.hog)
        self.weighed_down()
        before = self.cgroup(self.hog)
        # what is in a cgroup keeps it from going
        calm()
        self.api.action(self.hog, reboot={'type': 'HARD'})
        self.eventually(
            'rebooted',
            lambda: (
                not before.exists()
                and self.api.server(self.hog)['status'] == 'ACTIVE'
            ),
        )
        self.assertEqual(DEFAULT, self.blkiotune(self.victim))
        self.hammer(self.hog)
        self.weighed_down()
        self.killed()

    def recovers(self):
        """The hog's weight rises a class at a time, to the default."""
        seen = []
        cgroup = self.cgroup(self.hog)

        def risen():
            seen.append(self.weight_in(cgroup))
            return seen[-1] == DEFAULT

        self.eventually('forgiven', risen, interval=0.1)
        # what it did last may have counted only then
        seen = seen[seen.index(min(seen)) :]
        self.assertEqual(sorted(seen), seen)
        # a busy machine may have missed some in between, or made up for them
        self.assertGreater(len(set(seen)), 2, seen)

    def weighed_down(self):
        self.eventually(
            'weight on the disk',
            lambda: self.on_disk(self.hog) < DEFAULT,
        )

    def killed(self):
        """What systemd does after the agent was killed gives weights back."""
        process = self.cloud.services[self.agent]
        os.kill(process.pid(), signal.SIGKILL)
        self.eventually('its end', lambda: not process.running())
        self.assertLess(self.on_disk(self.hog), DEFAULT)
        conf = self.cloud.state.host_dir(self.host) / 'diskplacer.conf'
        subprocess.run(
            ['diskplacer-agent', f'--config-file={conf}', '--restore'],
            check=True,
        )
        for server in (self.hog, self.victim):
            self.assertEqual(DEFAULT, self.blkiotune(server))
            self.assertEqual(DEFAULT, self.on_disk(server))
            self.assertEqual('ACTIVE', self.api.server(server)['status'])
        xml = hypervisor.virsh(self.cloud.state, 'dumpxml', self.hog)
        self.assertNotIn('blkiotune', xml)
        self.cloud.restart(self.agent)
        self.weighed_down()
        # an agent that is asked to stop gives them back itself
        self.cloud.stop_service(self.agent)
        self.assertEqual(DEFAULT, self.on_disk(self.hog))
        self.assertEqual(DEFAULT, self.blkiotune(self.hog))
