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

"""Makes one filesystem on a stripe (md RAID 0) of this server's vdisks.

Runs in the guest as a part of ``script``, and needs mdadm there.

The UUID of the array is computed from the serials of all its disks. So a
stripe is recognized whatever the name of its device and whatever ``fstab``
has: the disks with one UUID are a complete stripe if it is the UUID of their
serials. If it is that of theirs and of blank disks, mdadm was interrupted
while it made the stripe.
"""

import shutil
import typing
import uuid

from nova_diskplacer.guest import script
from nova_diskplacer.guest import system

NAME = 'stripe'

# For mdadm, which makes a link to the device.
LINK = '/dev/md/vdisks'

MEMBER = 'linux_raid_member'

# States of an array that has not started.
STOPPED = ('clear', 'inactive')


class Striped(script.Guest):
    """Sets up a stripe, which has the name NAME."""

    _number = ''
    _members = ()  # type: typing.Sequence[str]

    def _adopt_all(self) -> None:
        self._try(NAME, self._adopt_stripe)

    def _adopt_stripe(self) -> None:
        complete, members = self._find()
        if not complete:
            if self._known():
                raise system.Problem('disks of it are missing')
            self._require(members)
        if not shutil.which('mdadm'):
            raise system.Problem('mdadm is not installed in this server')
        self._number, self._members = stripe_uuid(members), members
        if not complete:
            self._create()
        device = self._assemble()
        if self._known():
            return
        signature = system.read_signature(device)
        own = system.filesystem_uuid(self._number)
        if signature and signature.get('UUID') != own:
            raise system.Problem(
                '%s has a signature: %s'
                % (device, signature.get('TYPE') or 'unknown')
            )
        self._finish(device, NAME, own, signature)

    def _find(self) -> typing.Tuple[bool, typing.List[str]]:
        """Return whether the stripe is complete, and the serials of its disks.

        Without a stripe, they are those of the disks for one.
        """
        stripes = {}  # type: typing.Dict[str, typing.List[str]]
        blank = []
        volumes = self._settings['volumes']
        for serial in sorted(self._present):
            if volumes and serial not in volumes:
                continue
            signature = system.read_signature('/dev/' + self._present[serial])
            if signature.get('TYPE') == MEMBER:
                stripes.setdefault(signature['UUID'], []).append(serial)
            elif self._is_free(serial, signature, False):
                blank.append(serial)
        for number, serials in stripes.items():
            if stripe_uuid(serials) == number:
                return True, serials
        for number, serials in stripes.items():
            both = sorted(serials + blank)
            if stripe_uuid(both) == number:
                return False, both
            print('%s: left alone, another array' % ' '.join(serials))
        return False, blank

    def _require(self, members: typing.Sequence[str]) -> None:
        volumes = self._settings['volumes']
        needed = len(volumes) if volumes else self._settings['count']
        if len(members) < needed:
            raise system.Problem(
                '%d of %d vdisks are blank: all are needed to make it'
                % (len(members), needed)
            )

    def _create(self) -> None:
        self._stop()
        print('making a stripe of %s' % ' '.join(self._members))
        system.run(*create_command(self._number, self._paths()))
        system.run('udevadm', 'settle')

    def _assemble(self) -> str:
        """Start the array, unless it runs; return its device."""
        if not self._running():
            self._stop()
            system.run(
                'mdadm', '--assemble', LINK, '--uuid=' + self._number,
                *self._paths()
            )  # fmt: skip
            system.run('udevadm', 'settle')
        return '/dev/' + self._device(NAME)

    def _stop(self) -> None:
        """Stop an array of some of the disks that udev could not start."""
        for device in self._holders():
            system.run('mdadm', '--stop', '/dev/' + device)

    def _paths(self) -> typing.List[str]:
        return ['/dev/' + self._present[serial] for serial in self._members]

    def _holders(self) -> typing.List[str]:
        return sorted(
            {
                device
                for serial in self._members
                for device in system.holders(self._present[serial])
            }
        )

    def _running(self) -> typing.List[str]:
        """Return the device of the array, empty if it does not run."""
        return [
            device
            for device in self._holders()
            if system.read('/sys/block/%s/md/array_state' % device).strip()
            not in STOPPED
        ]

    def _source(self, name: str) -> str:
        return 'UUID=' + system.filesystem_uuid(self._number)

    def _device(self, name: str) -> str:
        running = self._running()
        if len(running) != 1:
            raise system.Problem('it does not run')
        return running[0]

    def _known(self) -> typing.List[str]:
        point = self._mount_point(NAME)
        fields = [line.split() for line in script.read_fstab().split('\n')]
        return [NAME] if any(point in line[1:2] for line in fields) else []

    def _tune(self, device: str) -> None:
        for serial in self._members:
            super()._tune(self._present[serial])

    def _check(self, mounted: typing.Sequence[str]) -> None:
        super()._check(self._members if mounted else ())


def create_command(
    number: str, paths: typing.Sequence[str]
) -> typing.List[str]:
    """Return the command that makes the array with a UUID of devices."""
    # a name for any host, as the hostname may change
    return [
        'mdadm', '--create', LINK, '--run', '--level=0', '--metadata=1.2',
        '--homehost=any', '--name=vdisks', '--uuid=' + number,
        '--raid-devices=%d' % len(paths)
    ] + list(paths)  # fmt: skip


def stripe_uuid(serials: typing.Iterable[str]) -> str:
    """Return the UUID of the array on disks with these serials."""
    return str(uuid.uuid5(system.NAMESPACE, ' '.join(sorted(serials))))


script.LAYOUTS[NAME] = Striped
