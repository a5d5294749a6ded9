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


"""Hosts that are emptied and lost, with servers in several states."""

import concurrent.futures
import json
import re
import shlex
import signal

from tests.e2e import moves_base
from tests.long import pages
from tools.minicloud import hypervisor
from tools.minicloud import moving
from tools.minicloud import process
from tools.storm import moved_server

PAGE = 'admin/lost-host.rst'
# of a host, in the order in which they start
SERVICES = (
    'libvirtd',
    'cinder-volume',
    'diskplacer-agent',
    moved_server.SETTLER,
    'nova-compute',
)


class HostsTest(moves_base.MovesTestCase):
    def host_command(self, *words):
        """Return the end of openstack vdisk host: status, rows and stderr.

        :returns: also {server name: row}.
        """
        done = self.cloud.attempt('openstack', 'vdisk', 'host', *words)
        rows = [row for table in pages.tables(done.stdout) for row in table]
        return (
            done.returncode,
            {row['Server']: row for row in rows},
            done.stderr,
        )

    def test_host_emptied(self):
        first, second = moved_server.REAL
        running, stopped, paused, suspended, resized = servers = self.boot_all(
            first,
            **dict.fromkeys(
                ('running', 'stopped', 'paused', 'suspended', 'resized'),
                self.flavor,
            ),
        )
        told = {server: server.told() for server in servers}
        for server, action, status in (
            (stopped, {'os-stop': None}, 'SHUTOFF'),
            (paused, {'pause': None}, 'PAUSED'),
            (suspended, {'suspend': None}, 'SUSPENDED'),
            (resized, {'migrate': {'host': second}}, 'VERIFY_RESIZE'),
        ):
            self.api.action(server.uuid, **action)
            self.api.wait_server(server.uuid, status)
        status, rows, _ = self.host_command('empty', first, '--plan')
        self.assertEqual(3, status, rows)
        kept = {
            'suspended': 'is suspended: resume it',
            'resized': f'openstack server resize confirm {resized.uuid}',
        }
        for name, kind in (
            ('running', 'live'),
            ('stopped', 'cold'),
            ('paused', 'live'),
            ('suspended', 'no'),
            ('resized', 'no'),
        ):
            self.assertEqual(kind, rows[name]['Move'], rows)
            self.assertIn(kept.get(name, ''), rows[name]['Reason'])
        self.assertEqual(5, len(rows))

        # the first run disables the host
        words = 'empty', first, '--live', '--parallel=2'
        with concurrent.futures.ThreadPoolExecutor() as pool:
            twice = [pool.submit(self.host_command, *words) for _ in range(2)]
        ended = [run.result() for run in twice]
        kept['stopped'] = 'is off, and moves cold'
        progress = ''.join(errors for _, _, errors in ended)
        for status, rows, _ in ended:
            self.assertEqual(3, status, rows)
            for name, reason in kept.items():
                self.assertIn(reason, rows[name]['Reason'])
        for server, name in ((running, 'running'), (paused, 'paused')):
            subject = f'Server {name} ({server.uuid})'
            for line in ('moves live', f'has moved to {second}'):
                self.assertEqual(
                    1, progress.count(f'{subject} {line}'), progress
                )
        running.wait_verified()

        # what the reasons say
        self.api.action(suspended.uuid, resume=None)
        self.api.wait_server(suspended.uuid)
        self.api.action(resized.uuid, confirmResize=None)
        resized.wait_migrated(second)
        status, rows, errors = self.host_command(
            'empty', first, '--cold', '--parallel=2', '--wait'
        )
        self.assertEqual(0, status, (rows, errors))
        self.assertEqual({'stopped', 'suspended'}, rows.keys())
        for row in rows.values():
            self.assertEqual(
                ('cold', 'moved', ''),
                (row['Move'], row['Result'], row['Reason']),
            )
        status, rows, _ = self.host_command('empty', first, '--plan')
        self.assertEqual((0, {}), (status, rows))
        for server in servers:
            server.wait_settled(second)

        self.api.action(paused.uuid, unpause=None)
        self.api.action(stopped.uuid, **{'os-start': None})
        for server in servers:
            self.api.wait_server(server.uuid)
        for server in (stopped, suspended, resized):
            server.wait_restarted(told[server])
        for server in servers:
            server.wait_verified()
        (command,) = re.findall(
            r'To enable it: (openstack .*)', errors.replace('\n', ' ')
        )
        self.cloud.run(*shlex.split(command)[:7])
        self.assertEqual('enabled', self.compute_service(first)['status'])

    def lose(self, host):
        """Kill all of a host, guests and services."""
        for name in SERVICES:
            service = self.cloud.services[f'{name}@{host}']
            service.signal_session(signal.SIGKILL)
            service.stop()
        hypervisor.end_guests(self.cloud.state, host)

    def assert_documented(self, documented, rows):
        """Check rows against those of the page, which has one of each kind."""
        for one in documented:
            one = {
                header: text.replace('compute-1', 'compute1')
                for header, text in one.items()
            }
            found = [row for row in rows if pages.is_like(row, one)]
            self.assertTrue(found, (one, rows))
            rows = [row for row in rows if row not in found]
        self.assertEqual([], rows)

    def give_up(self, host, other, *options):
        done = self.cloud.run_manage(
            other,
            'host',
            'give-up',
            f'--cinder-config-file={self.cinder_conf(other)}',
            host,
            *options,
        )
        self.assertEqual(3, done.returncode, done.stderr)
        (rows,) = pages.tables(done.stdout)
        return rows, done.stdout

    def cinder_conf(self, host):
        return self.cloud.state.host_dir(host) / 'cinder.conf'

    def test_host_lost(self):
        first, second = moved_server.REAL
        blank = moving.create_flavor(self.cloud, 'hdfs', on_host_loss='blank')
        hdfs, web = self.boot_all(
            first, **{'hdfs-1': blank, 'web-1': self.flavor}
        )
        told = web.told()
        self.lose(first)
        status, _, errors = self.host_command('lost', first)
        self.assertEqual(1, status)
        command = f'openstack compute service set --down {first} nova-compute'
        self.assertIn(command, errors)
        self.cloud.run(*shlex.split(command))
        refusals = set()

        def is_lost():
            status, rows, errors = self.host_command('lost', first)
            refusals.update(
                word
                for word in ('was heard of', 'cinder-volume')
                if word in errors
            )
            return rows if status == 3 else None

        rows = process.wait('host is lost', is_lost, interval=5)
        self.assertIn('was heard of', refusals)
        (documented,) = pages.tables_of_page(PAGE, [*rows['web-1']])
        self.assert_documented(documented, [*rows.values()])
        stays = [row for row in documented if row['Server'] == 'web-1']

        _, text = self.give_up(first, second)
        self.assertIn('Repeat this with --yes', text)
        self.assertEqual({first}, hdfs.where())
        rows, text = self.give_up(first, second, '--yes')
        (documented,) = pages.tables_of_page(PAGE, [*rows[0]])
        self.assert_documented(documented, rows)
        self.assertEqual(
            {
                volume: 'given up' if server is hdfs else 'stays'
                for server in (hdfs, web)
                for volume in server.volumes
            },
            {row['Volume']: row['Data'] for row in rows},
        )
        command = f'openstack vdisk host lost {first} --yes'
        self.assertIn(command, text)
        for names in (['hdfs-1', 'web-1'], ['web-1']):
            status, rows, errors = self.host_command('lost', first, '--yes')
            self.assertEqual((3, names), (status, sorted(rows)), errors)
            self.assert_documented(stays, [rows['web-1']])
            if 'hdfs-1' in rows:
                self.assertEqual('is back', rows['hdfs-1']['Result'])
        self.assertEqual(second, hdfs.host())
        hdfs.wait_verified()
        # nothing of what it has written before
        self.assertEqual([], hdfs.numbers('was at'))
        self.assertEqual((first, {first}), (web.host(), web.where()))

        # the host comes back against expectation
        for name in SERVICES:
            self.cloud.start_service(f'{name}@{first}')
        # Nova refuses it until nova-compute has ended the evacuations
        command = f'openstack compute service set --up {first} nova-compute'
        process.wait(
            'host is up',
            lambda: not self.cloud.attempt(*shlex.split(command)).returncode,
            interval=5,
        )
        self.remove_former_vdisks(hdfs, first)
        self.assertEqual({second}, hdfs.where())
        root = self.cloud.state.disk_root(first)
        self.assertEqual(
            [],
            [
                path
                for volume in hdfs.volumes
                for path in root.glob(f'*/**/volume-{volume}')
            ],
        )
        hdfs.wait_verified()
        self.api.action(web.uuid, reboot={'type': 'HARD'})
        self.api.wait_server(web.uuid)
        web.wait_restarted(told)
        web.wait_verified()
        self.assertEqual([], web.remains(first))

    def remove_former_vdisks(self, server, host):
        """Remove what the audit lists, by the commands that it tells."""
        conf = f'--cinder-config-file={self.cinder_conf(host)}'
        audited = self.cloud.manage(
            host, 'disk', 'audit', '--format=json', conf, allowed=(0, 3)
        )
        commands = {
            finding['owner']: re.search(
                r'(?<=diskplacer-manage )disk remove-vdisk .*',
                finding['advice'],
            )[0]
            for finding in json.loads(audited)['findings']
            if finding['kind'] == 'elsewhere'
        }
        self.assertEqual(set(server.volumes), commands.keys())
        for command in commands.values():
            self.cloud.manage(host, *command.split())
        # links to them
        self.cloud.manage(
            host, 'disk', 'audit', '--repair', conf, allowed=(0, 3)
        )
