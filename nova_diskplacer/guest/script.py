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

"""Formats and mounts this server's vdisks, and lists them for a framework.

``diskplacer-manage guest-config`` generates it. It runs in the guest and needs
Python 3.6 or later, util-linux and the filesystem's tools.

It may run, and be killed, at any time. It recognizes its own filesystems: the
UUID is computed from the disk's serial, and the label shows whether the
filesystem is complete. It never writes to a disk with any other signature.
"""

import fcntl
import grp
import os
import pwd
import sys
import typing

from nova_diskplacer.guest import editing
from nova_diskplacer.guest import system

FSTAB = '/etc/fstab'
LOCK = '/run/diskplacer-guest.lock'
BY_ID = '/dev/disk/by-id/virtio-'

Settings = typing.Dict[str, typing.Any]


class Guest:
    """Sets up the vdisks of this server as the settings describe.

    :param early: packages may not be installed yet, so that their users and
        configuration files may be missing.
    """

    def __init__(self, settings: Settings, early: bool) -> None:
        self._settings = settings
        self._early = early
        self._present = {}  # type: typing.Dict[str, str]
        self.problems = []  # type: typing.List[str]

    def _try(
        self, what: str, step: typing.Callable[..., object], *arguments: object
    ) -> bool:
        try:
            step(*arguments)
        except Exception as error:
            self.problems.append('%s: %s' % (what, error))
            return False
        return True

    def run(self) -> None:
        """Set up all vdisks and directories; ``problems`` lists failures."""
        self._try('udev', system.run, 'udevadm', 'settle')
        self._present = system.vdisks()
        for serial in sorted(self._present):
            self._try(serial, self._adopt, serial)
        mounted = [
            serial
            for serial in self._known()
            if self._try(serial, self._mount, serial)
        ]
        self._check(mounted)
        if self._known():
            for one in self._settings['directories']:
                self._try(one['file'], self._configure, one)

    def _check(self, mounted: typing.Sequence[str]) -> None:
        wanted = self._settings['volumes']
        for serial in wanted or ():
            if serial not in mounted:
                self.problems.append('%s: is not in use' % serial)
        if wanted is None and len(mounted) < self._settings['count']:
            self.problems.append(
                '%d of %d vdisks are in use'
                % (len(mounted), self._settings['count'])
            )

    def _mount_point(self, serial: str) -> str:
        return os.path.join(self._settings['root'], serial)

    def _known(self) -> typing.List[str]:
        """Return the serials of the vdisks that were adopted."""
        found = []
        for line in _read_fstab().split('\n'):
            device, point = (line.split() + ['', ''])[:2]
            serial = device[len(BY_ID) :]
            if device == BY_ID + serial and point == self._mount_point(serial):
                found.append(serial)
        return sorted(found)

    def _adopt(self, serial: str) -> None:
        """Make the filesystem of a vdisk, and add it to fstab."""
        device = '/dev/' + self._present[serial]
        wanted = self._settings['volumes']
        if serial in self._known() or (wanted and serial not in wanted):
            return
        if system.in_use(device):
            print('%s (%s): in use, left alone' % (device, serial))
            return
        found = system.read_signature(device)
        own = found.get('UUID') == system.filesystem_uuid(serial)
        if found and not own:
            kind = found.get('TYPE') or found.get('PTTYPE') or 'unknown'
            print(
                '%s (%s): left alone, has a signature: %s'
                % (device, serial, kind)
            )
            return
        if not found and wanted is None and not self._has_size(serial):
            print('%s (%s): left alone, has another size' % (device, serial))
            return
        if not found or found.get('LABEL') == system.UNFINISHED:
            kind = self._settings['filesystem']
            print('%s (%s): making %s' % (device, serial, kind))
            system.make_filesystem(device, serial, kind, bool(found))
        else:
            kind = found['TYPE']
        self._add_to_fstab(serial, kind)

    def _has_size(self, serial: str) -> bool:
        sectors = system.read('/sys/block/%s/size' % self._present[serial])
        return int(sectors) * 512 == int(self._settings['bytes'])

    def _add_to_fstab(self, serial: str, kind: str) -> None:
        os.makedirs(self._mount_point(serial), exist_ok=True)
        text = _read_fstab()
        if text and not text.endswith('\n'):
            text += '\n'
        passes = '0' if kind == 'xfs' else '2'
        fields = [BY_ID + serial, self._mount_point(serial), kind]
        fields += [self._settings['options'], '0', passes]
        system.replace(FSTAB, text + ' '.join(fields) + '\n')
        if os.path.isdir('/run/systemd/system'):
            system.run('systemctl', 'daemon-reload')

    def _mount(self, serial: str) -> None:
        """Mount and grow a vdisk, tune its queue and make its directories."""
        if serial not in self._present:
            raise system.Problem('there is no such disk')
        name = self._present[serial]
        point = self._mount_point(serial)
        os.makedirs(point, exist_ok=True)
        if not os.path.ismount(point):
            try:
                system.run('mount', point)
            except system.Problem:
                # systemd may have mounted it in the meantime
                if not os.path.ismount(point):
                    raise
        device = os.stat(point).st_dev
        number = '%d:%d' % (os.major(device), os.minor(device))
        if number != system.read('/sys/block/%s/dev' % name).strip():
            raise system.Problem('another disk is mounted on ' + point)
        if system.run('findmnt', '-n', '-o', 'FSTYPE', point).strip() == 'xfs':
            system.run('xfs_growfs', point)
        else:
            system.run('resize2fs', '/dev/' + name)
        self._tune(name)
        for one in self._settings['directories']:
            self._make_directory(os.path.join(point, one['name']), one)

    def _tune(self, name: str) -> None:
        for key, value in self._settings['queue'].items():
            path = '/sys/block/%s/queue/%s' % (name, key)
            try:
                with open(path, 'w') as stream:
                    stream.write(str(value))
            except OSError as error:
                # the settings are advice: a kernel may lack a scheduler
                print('%s: %s: %s' % (path, value, error.strerror))

    def _make_directory(self, path: str, one: Settings) -> None:
        """Make a directory, and set its owner if root owns it."""
        umask = os.umask(0)
        try:
            os.mkdir(path, one['mode'])
        except FileExistsError:
            pass
        finally:
            os.umask(umask)
        if os.stat(path).st_uid != 0:
            return
        user, _, group = one['owner'].partition(':')
        try:
            account = pwd.getpwnam(user)
            number = grp.getgrnam(group).gr_gid if group else account.pw_gid
        except KeyError as error:
            if self._early:
                return
            raise system.Problem('%s: %s' % (path, error.args[0])) from None
        os.chown(path, account.pw_uid, number)

    def _configure(self, one: Settings) -> None:
        """Write the directories into a framework's configuration file."""
        try:
            old = system.read(one['file'])
        except FileNotFoundError:
            if self._early:
                return
            old = ''
        new = editing.EDITORS[one['syntax']](
            old,
            one['property'],
            [
                one['prefix']
                + os.path.join(self._mount_point(serial), one['name'])
                for serial in self._known()
            ],
        )
        if new != old:
            print('%s: %s' % (one['file'], one['property']))
            system.replace(one['file'], new)


def _read_fstab() -> str:
    return system.read(FSTAB) if os.path.exists(FSTAB) else ''


def main(settings: Settings) -> int:
    """Run the script; return the exit status, 1 if there are problems."""
    guest = Guest(settings, early=sys.argv[1:] == ['early'])
    with open(LOCK, 'w') as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        guest.run()
    for problem in guest.problems:
        print('vdisks: ' + problem, file=sys.stderr)
    return int(bool(guest.problems))
