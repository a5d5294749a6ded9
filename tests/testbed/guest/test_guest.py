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


"""The user data of guest-config, applied to disks by cloud-init itself."""

import json
import os
import pathlib
import pwd
import shutil
import subprocess
import xml.etree.ElementTree
from email.mime import multipart
from email.mime import text

import testtools
import testtools.content
import yaml

from nova_diskplacer.guest import config
from nova_diskplacer.guest import stripe
from nova_diskplacer.guest import system
from nova_diskplacer.guest import vendor_data
from nova_diskplacer.profiles import definitions
from tests.testbed import guest
from tools.testbed import udev

MOUNTS = pathlib.Path('/data')
CONF = pathlib.Path('/etc/framework')
FSTAB = pathlib.Path('/etc/fstab')
SCRIPT = pathlib.Path(config.PATH)
BLANK = guest.SERIALS[:3]
TAKEN = guest.SERIALS[3]

HDFS_SITE = """<?xml version="1.0"?>
<configuration>
  <!-- ours -->
  <property><name>dfs.replication</name><value>2</value></property>
  <property>
    <name>dfs.datanode.data.dir</name>
    <value>/var/lib/hdfs</value>
  </property>
</configuration>
"""

CLOUD_CFG = """
datasource_list: [NoCloud, ConfigDrive, None]
network: {config: disabled}
cloud_init_modules: [bootcmd, write-files]
cloud_final_modules: [scripts-vendor, runcmd, scripts-user]
"""

# All is done before there is a network.
META_DATA = """
instance-id: i-1
dsmode: local
"""

# The same, of a config drive.
DRIVE_META_DATA = {'uuid': 'i-1', 'meta': {'dsmode': 'local'}}

# A user that other user data makes, after services have started.
OTHERS = """#cloud-config
runcmd:
- [groupadd, hadoop]
- [useradd, --system, hdfs]
- [useradd, --system, yarn]
"""

# Stands in for a command: the one named $KILL_AT is not executed, but the
# script that calls it is killed; mkfs is killed soon after it began, and has
# ended before the script does.
STAND_IN = """#!/bin/sh
real={directory}/real/${{0##*/}}
if [ "${{0##*/}}" = "$KILL_AT" ]; then
    case $0 in */mkfs.*) timeout --foreground -s KILL 0.2 "$real" "$@" ;; esac
    kill -9 $PPID
    exit
fi
exec "$real" "$@"
"""


def run(*command, check=True, **env):
    """Return the exit status and what a command prints."""
    done = subprocess.run(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, **env},
    )
    if check and done.returncode:
        raise AssertionError(f'{command}: {done.stdout}')
    return done.returncode, done.stdout


def device(serial):
    return os.path.realpath(f'/dev/disk/by-id/virtio-{serial}')


def mounted():
    """Return {mount point: (device, type, options)} of the vdisks."""
    lines = pathlib.Path('/proc/self/mounts').read_text().splitlines()
    fields = [line.split() for line in lines]
    return {
        target: (source, kind, options.split(','))
        for source, target, kind, options, *_ in fields
        if target.startswith(f'{MOUNTS}/')
    }


def value(path, name):
    """Return a property of a file of Hadoop's."""
    root = xml.etree.ElementTree.parse(path).getroot()
    (found,) = [
        one.findtext('value')
        for one in root.findall('property')
        if one.findtext('name') == name
    ]
    return found


class GuestTestCase(testtools.TestCase):
    def setUp(self):
        super().setUp()
        udev.settle()
        self.fstab = FSTAB.read_text() if FSTAB.exists() else ''
        self.addCleanup(self.reset)
        CONF.mkdir()
        run('mkfs.ext4', '-q', '-L', 'precious', device(TAKEN))

    def reset(self):
        FSTAB.write_text(self.fstab)
        shutil.rmtree(CONF)
        for point in mounted():
            run('umount', point)
        run('mdadm', '--stop', '--scan', check=False)
        shutil.rmtree(MOUNTS, ignore_errors=True)
        SCRIPT.unlink(missing_ok=True)
        for serial in guest.SERIALS[:5]:
            run('wipefs', '--all', '--quiet', device(serial))

    def settings(self, framework, volumes=None, count=3, **values):
        return config.settings(
            framework,
            volumes=volumes,
            count=count,
            gib=1,
            conf_dir=str(CONF),
            **values,
        )

    def execute(self, settings, *arguments, **run_arguments):
        """Run the script; return its exit status and what it prints."""
        SCRIPT.write_text(config.script(settings))
        return run('python3', str(SCRIPT), *arguments, **run_arguments)

    def assert_served(self, kind='xfs', serials=BLANK):
        """Check that these vdisks are mounted, and nothing else."""
        found = mounted()
        self.assertEqual(
            {f'{MOUNTS}/{serial}': device(serial) for serial in serials},
            {point: source for point, (source, _, _) in found.items()},
        )
        for _, found_kind, options in found.values():
            self.assertEqual(kind, found_kind)
            self.assertIn('noatime', options)
        fstab = FSTAB.read_text()
        self.assertEqual(len(serials), fstab.count('nofail'))
        self.assertTrue(fstab.startswith(self.fstab))

    def assert_left_alone(self):
        self.assertIn(
            'LABEL=precious', run('blkid', '-p', '-o', 'export',
                                  device(TAKEN))[1]
        )  # fmt: skip
        for other in (guest.SERIALS[4], 'disk9'):
            self.assertEqual({}, system.read_signature(device(other)))


class CloudInitTestCase(GuestTestCase):
    def setUp(self):
        super().setUp()
        self.addOnException(self.show_log)

    def show_log(self, _):
        log = pathlib.Path('/var/log/cloud-init.log').read_text()
        self.addDetail('log', testtools.content.text_content(log[-9000:]))

    def boot(self):
        """Have cloud-init do what it does in a boot of this system."""
        shutil.rmtree('/run/cloud-init', ignore_errors=True)
        run('/usr/bin/cloud-init', 'init', '--local')
        run('/usr/bin/cloud-init', 'modules', '--mode=final')

    def seed(self, user_data):
        message = multipart.MIMEMultipart()
        for part in (OTHERS, user_data):
            message.attach(text.MIMEText(part, 'cloud-config'))
        self.write_seed(
            'nocloud',
            {'user-data': message.as_string(), 'meta-data': META_DATA},
        )

    def seed_drive(self, user, vendor):
        """Write a config drive, as Nova makes it."""
        self.write_seed(
            'config_drive/openstack/latest',
            {
                'user_data': user,
                'meta_data.json': json.dumps(DRIVE_META_DATA),
                'vendor_data2.json': json.dumps(
                    {'static': {}, 'cloud-init': vendor}
                ),
            },
        )

    def write_seed(self, directory, files):
        seed = pathlib.Path('/var/lib/cloud/seed', directory)
        seed.mkdir(parents=True)
        self.addCleanup(shutil.rmtree, '/var/lib/cloud')
        for name, content in files.items():
            (seed / name).write_text(content)
        pathlib.Path('/etc/cloud/cloud.cfg').write_text(CLOUD_CFG)

    def test_two_boots(self):
        self.seed(config.user_data(self.settings('hadoop')))
        self.check_two_boots()

    def test_two_boots_with_vendor_data(self):
        """The lists of the tenant's own user data do not replace it."""
        done = CONF / 'done'
        user_data = yaml.safe_dump(
            {
                'bootcmd': [
                    f'id {user} || useradd --system {user}; :'
                    for user in ('hdfs', 'yarn')
                ]
                + ['groupadd --force hadoop'],
                'runcmd': [['touch', str(done)]],
            }
        )
        self.seed_drive(
            '#cloud-config\n' + user_data,
            vendor_data.vendor_data(self.settings('hadoop')),
        )
        self.check_two_boots()
        self.assertTrue(done.exists())

    def check_two_boots(self):
        site = CONF / 'hdfs-site.xml'
        site.write_text(HDFS_SITE)
        self.boot()
        self.assert_served()
        self.assert_left_alone()
        self.assertEqual(
            ','.join(f'file:///data/{one}/hdfs' for one in BLANK),
            value(site, 'dfs.datanode.data.dir'),
        )
        self.assertEqual('2', value(site, 'dfs.replication'))
        self.assertIn('<!-- ours -->', site.read_text())
        self.assertEqual(
            ','.join(f'/data/{one}/yarn' for one in BLANK),
            value(CONF / 'yarn-site.xml', 'yarn.nodemanager.local-dirs'),
        )
        for serial in BLANK:
            status = (MOUNTS / serial / 'hdfs').stat()
            self.assertEqual('hdfs', pwd.getpwuid(status.st_uid).pw_name)
            self.assertEqual(0o700, status.st_mode & 0o7777)
            (MOUNTS / serial / 'hdfs' / 'block').write_text(serial)
        before = (FSTAB.read_text(), site.stat().st_mtime_ns)
        for point in mounted():
            run('umount', point)
        self.boot()
        self.assert_served()
        self.assert_left_alone()
        self.assertEqual(before, (FSTAB.read_text(), site.stat().st_mtime_ns))
        for serial in BLANK:
            block = MOUNTS / serial / 'hdfs' / 'block'
            self.assertEqual(serial, block.read_text())


class ScriptTestCase(GuestTestCase):
    def kill_at(self, wanted, *commands):
        """Run the script again and again, killed at another command."""
        directory = pathlib.Path('/root/stand-ins')
        (directory / 'real').mkdir(parents=True)
        for name in set(commands):
            (directory / 'real' / name).symlink_to(shutil.which(name))
            path = directory / name
            path.write_text(STAND_IN.format(directory=directory))
            path.chmod(0o755)
        for name in commands:
            status, said = self.execute(
                wanted,
                check=False,
                PATH=f'{directory}:{os.environ["PATH"]}',
                KILL_AT=name,
            )
            self.assertEqual(-9, status, f'{name}: {said}')
        shutil.rmtree(directory)

    def test_killed_before_every_command_and_while_making(self):
        wanted = self.settings('plain', (f'{BLANK[0]}a4f-3f0f6f1f7a10',))
        self.kill_at(
            wanted,
            # in the order in which they are called; making what was begun is
            # killed too
            'udevadm', 'blkid', 'wipefs', 'mkfs.xfs', 'xfs_admin',
            'mkfs.xfs', 'mount', 'findmnt', 'xfs_growfs',
        )  # fmt: skip
        self.execute(wanted)
        self.assert_served(serials=BLANK[:1])
        self.assert_left_alone()
        for serial in BLANK[1:]:
            self.assertEqual({}, system.read_signature(device(serial)))

    def members(self):
        """Return the UUIDs of the arrays that the vdisks belong to."""
        found = [system.read_signature(device(serial)) for serial in BLANK]
        for one in found:
            self.assertEqual(stripe.MEMBER, one.get('TYPE'))
        return {one['UUID'] for one in found}

    def test_stripe(self):
        wanted = self.settings('plain', layout='stripe')
        self.kill_at(wanted, 'udevadm', 'blkid', 'wipefs', 'mdadm')
        self.begin()
        self.kill_at(wanted, 'mdadm', 'mkfs.xfs', 'xfs_admin', 'mount')
        self.execute(wanted)
        self.assertEqual({stripe.stripe_uuid(BLANK)}, self.members())
        self.assert_left_alone()
        point = MOUNTS / 'stripe'
        self.assertEqual([str(point)], list(mounted()))
        status = os.statvfs(point)
        self.assertGreater(status.f_blocks * status.f_frsize, 2900 << 20)
        (point / 'file').write_text('content')
        before = FSTAB.read_text()
        for assembles in (True, False):
            run('umount', point)
            run('mdadm', '--stop', '--scan')
            if assembles:
                self.assemble()
            self.execute(wanted)
            self.assertEqual('content', (point / 'file').read_text())
            self.assertEqual(before, FSTAB.read_text())

    def begin(self):
        """Leave superblocks on two disks, as a crash of the server does."""
        run(
            'mdadm', '--create', stripe.LINK, '--run', '--level=0',
            '--metadata=1.2', '--homehost=any', '--name=vdisks',
            '--uuid=' + stripe.stripe_uuid(BLANK), '--raid-devices=3',
            *map(device, BLANK),
        )  # fmt: skip
        run('mdadm', '--stop', '--scan')
        run('mdadm', '--zero-superblock', device(BLANK[1]))
        self.assertEqual({}, system.read_signature(device(BLANK[1])))
        self.assemble()

    def assemble(self):
        """Do what udev does at a boot, and may have done already."""
        for serial in BLANK:
            run('mdadm', '--incremental', device(serial), check=False)
        udev.settle()

    def test_frameworks_one_after_the_other(self):
        cassandra = CONF / 'cassandra.yaml'
        cassandra.write_text('a: 1\ndata_file_directories:\n- /old\nb: 2\n')
        server = CONF / 'server.properties'
        server.write_text('a=1\nlog.dirs=/tmp/kafka-logs\n')
        for framework in ('spark', 'kafka', 'cassandra'):
            wanted = self.settings(
                framework,
                advice=definitions.Guest('ext4'),
                owner='root:root',
            )
            self.execute(wanted)
        self.assert_served('ext4')
        self.assert_left_alone()

        def listed(name):
            return [f'{MOUNTS}/{serial}/{name}' for serial in BLANK]

        self.assertEqual(
            f'spark.local.dir={",".join(listed("spark"))}\n',
            (CONF / 'spark-defaults.conf').read_text(),
        )
        self.assertEqual(
            f'a=1\nlog.dirs={",".join(listed("kafka"))}\n',
            server.read_text(),
        )
        self.assertEqual(
            {'a': 1, 'data_file_directories': listed('cassandra'), 'b': 2},
            yaml.safe_load(cassandra.read_text()),
        )
        for path in (*listed('spark'), *listed('kafka')):
            self.assertTrue(os.path.isdir(path))

    def test_grows_what_it_has_made(self):
        first, second, third = BLANK
        small = str(512 << 10)
        for serial, command in (
            (first, ['mkfs.xfs', '-d', f'size={small}k', '-m']),
            (second, ['mkfs.ext4', '-F', '-q', '-U']),
            # a copy of the first
            (third, ['mkfs.xfs', '-d', f'size={small}k', '-m']),
        ):
            own = system.filesystem_uuid(first if serial == third else serial)
            run(
                *command,
                ('uuid=' if command[0] == 'mkfs.xfs' else '') + own,
                '-L',
                system.FINISHED,
                device(serial),
                *([small + 'k'] if command[0] == 'mkfs.ext4' else []),
            )
        queue = pathlib.Path('/sys/block') / os.path.basename(device(first))
        status, said = self.execute(
            self.settings(
                'hadoop',
                advice=definitions.Guest(scheduler='none', read_ahead_kb=512),
                owner='absent',
            ),
            check=False,
        )
        # neither is the third one used, nor is there such a user
        self.assertEqual(1, status)
        self.assertIn(f'({third}): left alone, has a signature: xfs', said)
        self.assertIn("name not found: 'absent'", said)
        found = mounted()
        self.assertEqual(
            [f'{MOUNTS}/{one}' for one in (first, second)], sorted(found)
        )
        for point in found:
            status = os.statvfs(point)
            self.assertGreater(status.f_blocks * status.f_frsize, 900 << 20)
        self.assertEqual('512\n', (queue / 'queue/read_ahead_kb').read_text())
        self.assertIn('[none]', (queue / 'queue/scheduler').read_text())

    def test_says_what_is_missing(self):
        CONF.rmdir()
        self.addCleanup(CONF.mkdir)
        status, said = self.execute(
            self.settings('kafka', count=4, owner='root'), check=False
        )
        self.assertEqual(1, status)
        self.assertIn('3 of 4 vdisks are in use', said)
        self.assertIn(f'{CONF}/server.properties: ', said)
        self.assert_served()
        # a disk that has gone stays listed, and keeps its place
        run('umount', f'{MOUNTS}/{BLANK[0]}')
        FSTAB.write_text(FSTAB.read_text().replace(BLANK[0], guest.SERIALS[9]))
        CONF.mkdir()
        self.addCleanup(shutil.rmtree, CONF)
        status, said = self.execute(
            self.settings('kafka', count=4, owner='root'), check=False
        )
        self.assertEqual(1, status)
        self.assertIn(f'{guest.SERIALS[9]}: there is no such disk', said)
        self.assertEqual(
            'log.dirs='
            + ','.join(
                f'{MOUNTS}/{one}/kafka' for one in (*BLANK, guest.SERIALS[9])
            )
            + '\n',
            (CONF / 'server.properties').read_text(),
        )
