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
        self._adopt_all()
        mounted = [
            name
            for name in self._known()
            if self._try(name, self._mount, name)
        ]
        self._check(mounted)
        if self._known():
            for directory in self._settings['directories']:
                self._try(directory['file'], self._configure, directory)

    def _adopt_all(self) -> None:
        for serial in sorted(self._present):
            self._try(serial, self._adopt, serial)

    def _check(self, mounted: typing.Sequence[str]) -> None:
        volumes = self._settings['volumes']
        for serial in volumes or ():
            if serial not in mounted:
                self.problems.append('%s: is not in use' % serial)
        if volumes is None and len(mounted) < self._settings['count']:
            self.problems.append(
                '%d of %d vdisks are in use'
                % (len(mounted), self._settings['count'])
            )

    def _mount_point(self, name: str) -> str:
        return os.path.join(self._settings['root'], name)

    def _source(self, name: str) -> str:
        """Return the first field of a line of fstab."""
        return BY_ID + name

    def _device(self, name: str) -> str:
        """Return the kernel's name of the device with a filesystem."""
        if name not in self._present:
            raise system.Problem('there is no such disk')
        return self._present[name]

    def _known(self) -> typing.List[str]:
        """Return the serials of the vdisks that were adopted."""
        names = []
        for line in read_fstab().split('\n'):
            source, point = (line.split() + ['', ''])[:2]
            name = os.path.basename(point)
            if point == self._mount_point(name) and source == self._source(
                name
            ):
                names.append(name)
        return sorted(names)

    def _adopt(self, serial: str) -> None:
        """Make the filesystem of a vdisk, and add it to fstab."""
        device = '/dev/' + self._present[serial]
        volumes = self._settings['volumes']
        if serial in self._known() or (volumes and serial not in volumes):
            return
        signature = system.read_signature(device)
        own = system.filesystem_uuid(serial)
        if not self._is_free(serial, signature, signature.get('UUID') == own):
            return
        self._finish(device, serial, own, signature)

    def _is_free(
        self, serial: str, signature: typing.Dict[str, str], own: bool
    ) -> bool:
        """Tell whether a disk is blank or our own, or print why it is not.

        :param found: its signature.
        """
        device = '/dev/' + self._present[serial]
        if system.in_use(device):
            reason = 'in use'
        elif signature and not own:
            kind = (
                signature.get('TYPE') or signature.get('PTTYPE') or 'unknown'
            )
            reason = 'has a signature: ' + kind
        elif (
            not signature
            and self._settings['volumes'] is None
            and not self._has_size(serial)
        ):
            reason = 'has another size'
        else:
            return True
        print('%s (%s): left alone, %s' % (device, serial, reason))
        return False

    def _finish(
        self,
        device: str,
        name: str,
        own: str,
        signature: typing.Dict[str, str],
    ) -> None:
        """Make the filesystem, unless it is complete, and add it to fstab."""
        kind = self._settings['filesystem']
        if not signature or signature.get('LABEL') == system.UNFINISHED:
            print('%s (%s): making %s' % (device, name, kind))
            system.make_filesystem(device, own, kind, bool(signature))
        else:
            kind = signature['TYPE']
        self._add_to_fstab(name, kind)

    def _has_size(self, serial: str) -> bool:
        sectors = system.read('/sys/block/%s/size' % self._present[serial])
        return int(sectors) * 512 == int(self._settings['bytes'])

    def _add_to_fstab(self, name: str, kind: str) -> None:
        os.makedirs(self._mount_point(name), exist_ok=True)
        text = read_fstab()
        if text and not text.endswith('\n'):
            text += '\n'
        passes = '0' if kind == 'xfs' else '2'
        fields = [self._source(name), self._mount_point(name), kind]
        fields += [self._settings['options'], '0', passes]
        system.replace(FSTAB, text + ' '.join(fields) + '\n')
        if os.path.isdir('/run/systemd/system'):
            system.run('systemctl', 'daemon-reload')

    def _mount(self, name: str) -> None:
        """Mount and grow a filesystem, tune its queue, make directories."""
        device = self._device(name)
        point = self._mount_point(name)
        os.makedirs(point, exist_ok=True)
        if not os.path.ismount(point):
            try:
                system.run('mount', point)
            except system.Problem:
                # systemd may have mounted it in the meantime
                if not os.path.ismount(point):
                    raise
        mounted = os.stat(point).st_dev
        number = '%d:%d' % (os.major(mounted), os.minor(mounted))
        if number != system.read('/sys/block/%s/dev' % device).strip():
            raise system.Problem('another disk is mounted on ' + point)
        if system.run('findmnt', '-n', '-o', 'FSTYPE', point).strip() == 'xfs':
            system.run('xfs_growfs', point)
        else:
            system.run('resize2fs', '/dev/' + device)
        self._tune(device)
        for directory in self._settings['directories']:
            self._make_directory(
                os.path.join(point, directory['name']), directory
            )

    def _tune(self, device: str) -> None:
        for key, value in self._settings['queue'].items():
            path = '/sys/block/%s/queue/%s' % (device, key)
            try:
                with open(path, 'w') as stream:
                    stream.write(str(value))
            except OSError as error:
                # the settings are advice: a kernel may lack a scheduler
                print('%s: %s: %s' % (path, value, error.strerror))

    def _make_directory(self, path: str, directory: Settings) -> None:
        """Make a directory, and set its owner if root owns it."""
        umask = os.umask(0)
        try:
            os.mkdir(path, directory['mode'])
        except FileExistsError:
            pass
        finally:
            os.umask(umask)
        if os.stat(path).st_uid != 0:
            return
        user, _, group = directory['owner'].partition(':')
        try:
            account = pwd.getpwnam(user)
            number = grp.getgrnam(group).gr_gid if group else account.pw_gid
        except KeyError as error:
            if self._early:
                return
            raise system.Problem('%s: %s' % (path, error.args[0])) from None
        os.chown(path, account.pw_uid, number)

    def _configure(self, directory: Settings) -> None:
        """Write the directories into a framework's configuration file."""
        try:
            old = system.read(directory['file'])
        except FileNotFoundError:
            if self._early:
                return
            old = ''
        new = editing.EDITORS[directory['syntax']](
            old,
            directory['property'],
            [
                directory['prefix']
                + os.path.join(self._mount_point(name), directory['name'])
                for name in self._known()
            ],
        )
        if new != old:
            print('%s: %s' % (directory['file'], directory['property']))
            system.replace(directory['file'], new)


def read_fstab() -> str:
    return system.read(FSTAB) if os.path.exists(FSTAB) else ''


#: What sets up the vdisks, by the layout in the settings.
LAYOUTS = {'separate': Guest}  # type: typing.Dict[str, typing.Type[Guest]]


def main(settings: Settings) -> int:
    """Run the script; return the exit status, 1 if there are problems."""
    layout = LAYOUTS[settings['layout']]
    guest = layout(settings, early=sys.argv[1:] == ['early'])
    with open(LOCK, 'w') as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        guest.run()
    for problem in guest.problems:
        print('vdisks: ' + problem, file=sys.stderr)
    return int(bool(guest.problems))
