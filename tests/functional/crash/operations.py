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

"""The operations of the driver, as Cinder's API and users ask for them.

Each knows how to be prepared, asked for, repeated after cinder-volume was
killed in it, and checked. ``made`` holds what was prepared, as ids.
"""

import os
import uuid

from cinder import objects

from cinder_vdisk_mapper.cinder_api.releases import db_api
from nova_diskplacer.disks import links
from tests.functional.crash import cloud as cloud_
from tests.functional.crash.cloud import GIB

#: what is done after a kill: the operation is repeated, or all is deleted
AGAIN, DELETE = 'repeated', 'deleted'


class Operation:
    """One operation; all that is wrong raises AssertionError."""

    #: what is done after a kill, each of another victim
    ways = AGAIN, DELETE

    #: whether the audit repairs before every second of these
    repairs = True

    #: an operation whose walk has the victims of the steps that both take
    beside = None

    #: the backends that it takes
    media = ('hdd',)

    #: what a server attaches where a vdisk is a file
    connection = 'file'

    def prepare(self, cloud):
        """Make what it takes, and ask for it as Cinder's API does."""
        raise NotImplementedError

    def perform(self, cloud, made):
        """Have cinder-volume do it."""
        raise NotImplementedError

    def answered(self, cloud, made):
        """Do what cinder-api does when cinder-volume has done it."""

    def again(self, cloud, made):
        """Repeat it after cinder-volume was killed and started again."""
        raise NotImplementedError

    def check(self, cloud, made):
        """See that it was done."""
        raise NotImplementedError

    def survived(self, cloud, made):
        """See that nothing is lost, just after cinder-volume has started."""

    def end(self, cloud, made):
        """Do what must be done before all is deleted."""


def expect(expected, found, what):
    """See that something is as expected."""
    if expected != found:
        raise AssertionError(f'{what}: {found!r}, expected {expected!r}')


def expect_text(cloud, text, record):
    """See what a volume or snapshot is filled with."""
    expect(text, cloud.read(cloud.path(record)), record.name)


def expect_size(cloud, size_gb, record):
    """See that a vdisk has its size, with all of it allocated."""
    status = os.stat(cloud.path(record))
    expect(size_gb * GIB, status.st_size, f'size of {record.name}')
    if status.st_blocks * 512 < size_gb * GIB:
        raise AssertionError(f'{record.name} is not allocated')


class Bind(Operation):
    """The first attachment of a volume binds it."""

    server = cloud_.SERVER

    def prepare(self, cloud):
        volume = cloud.volume(display_name=f'{self.server}-blank-vol')
        return self._reserved(cloud, volume)

    def _reserved(self, cloud, volume):
        attachment = objects.VolumeAttachment(
            cloud.context,
            volume_id=volume.id,
            instance_uuid=self.server,
            attach_status='reserved',
            attach_mode='null',
        )
        attachment.create()
        cloud.set(volume, status='reserved')
        return {'volume': volume.id, 'attachment': attachment.id}

    def perform(self, cloud, made):
        volume = cloud.get(made['volume'])
        cloud.manager_of(volume).attachment_update(
            cloud.context, volume, dict(cloud_.CONNECTOR), made['attachment']
        )

    def again(self, cloud, made):
        # nova-compute gives up, and deletes the attachment
        db_api.volume_detached(
            cloud.context, made['volume'], made['attachment']
        )
        volume = cloud.set(cloud.get(made['volume']), status='available')
        made.update(self._reserved(cloud, volume))
        self.perform(cloud, made)

    def check(self, cloud, made):
        volume = cloud.get(made['volume'])
        expect('attaching', volume.status, 'status')
        held = cloud.held()[volume.provider_location, volume.name]
        expect(self.server, held.server_id, 'server')
        expect_size(cloud, 1, volume)
        expect_text(cloud, '', volume)
        cloud.set(volume, status='in-use')


class BindClaimed(Bind):
    """The same for a server that has claimed a disk.

    It has its victims where the vdisk gets a loop device, too.
    """

    server = cloud_.CLAIMING

    def check(self, cloud, made):
        super().check(cloud, made)
        volume = cloud.get(made['volume'])
        expect(cloud.claimed, volume.provider_location, 'disk')


class Create(Operation):
    """Creates a volume of something; a failed one is deleted by the user."""

    text = ''
    bound = True

    def prepare(self, cloud):
        made = self.source(cloud)
        return {**made, **self._asked(cloud, made)}

    def source(self, cloud):
        """Make what the volume is to be made of."""
        return {}

    def fields(self, made):
        """Return what the request has beside the size."""
        return {}

    def _asked(self, cloud, made):
        fields = {
            key: value
            for key, value in self.fields(made).items()
            if key != 'image_id'
        }
        volume = cloud.volume(status='creating', size=2, **fields)
        cloud.set(volume)
        return {'volume': volume.id}

    def perform(self, cloud, made):
        volume = cloud.get(made['volume'])
        cloud.manager_of(volume).create_volume(
            cloud.context,
            volume,
            objects.RequestSpec(volume_id=volume.id, **self.fields(made)),
            allow_reschedule=False,
        )

    def again(self, cloud, made):
        volume = cloud.get(made['volume'])
        if volume.status != 'available':
            # an error since the start, or the operator's word for one of
            # which cinder-volume had not yet begun to work on
            cloud.set(volume, status='deleting')
            cloud.manager_of(volume).delete_volume(cloud.context, volume)
            made.update(self._asked(cloud, made))
            self.perform(cloud, made)

    def check(self, cloud, made):
        volume = cloud.get(made['volume'])
        expect('available', volume.status, 'status')
        expect(self.bound, bool(volume.provider_location), 'bound')
        if self.bound:
            expect_size(cloud, 2, volume)
            self.check_content(cloud, volume)

    def check_content(self, cloud, volume):
        """See that the volume holds what it should."""
        expect_text(cloud, self.text, volume)


class CreateUnbound(Create):
    """A volume of nothing takes no space."""

    bound = False

    # a failed one is deleted before it is asked for again
    ways = (AGAIN,)
    repairs = False


class CreateFromImage(Create):
    """A volume of an image."""

    # a failed one is deleted before it is asked for again; the repair is that
    # of a copy, as in CreateFromSnapshot
    ways = (AGAIN,)
    repairs = False

    def fields(self, made):
        return {'image_id': str(uuid.UUID(int=9))}

    def check_content(self, cloud, volume):
        content = cloud_.Image.content
        with open(cloud.path(volume), 'rb') as stream:
            expect(content, stream.read(len(content)), 'image')
            expect(b'\0' * 512, stream.read(512), 'rest')


class CreateFromSnapshot(Create):
    """A volume of a snapshot, whose volume has changed since.

    A clone of a volume takes the same steps, of the same function.
    """

    text = 's'

    def source(self, cloud):
        volume = cloud.bound('s')
        snapshot = cloud.frozen(volume)
        cloud.write(volume, 'n')
        return {'source': volume.id, 'snapshot': snapshot.id}

    def fields(self, made):
        return {'snapshot_id': made['snapshot']}

    def survived(self, cloud, made):
        expect_text(cloud, 'n', cloud.get(made['source']))
        expect_text(cloud, 's', cloud.get_snapshot(made['snapshot']))


class Extend(Operation):
    """Extends a volume."""

    bound = True

    def prepare(self, cloud):
        volume = cloud.bound('e') if self.bound else cloud.volume()
        cloud.set(volume, status='extending')
        return {'volume': volume.id}

    def perform(self, cloud, made):
        volume = cloud.get(made['volume'])
        cloud.manager_of(volume).extend_volume(cloud.context, volume, 2, [])

    def again(self, cloud, made):
        volume = cloud.get(made['volume'])
        if volume.status != 'available':
            cloud.set(volume, status='extending')
            self.perform(cloud, made)

    def survived(self, cloud, made):
        if self.bound:
            expect_text(cloud, 'e', cloud.get(made['volume']))

    def check(self, cloud, made):
        volume = cloud.get(made['volume'])
        expect(('available', 2), (volume.status, volume.size), 'volume')
        if self.bound:
            expect_size(cloud, 2, volume)
            expect_text(cloud, 'e', volume)
            with open(cloud.path(volume), 'rb') as stream:
                stream.seek(GIB)
                expect(b'\0' * 4096, stream.read(4096), 'rest')


class ExtendUnbound(Extend):
    """Extends a volume that has no bytes."""

    bound = False


class Delete(Operation):
    """Deletes a volume; cinder-volume goes on with it when it starts."""

    bound = True

    def prepare(self, cloud):
        other = cloud.bound('o')
        volume = cloud.bound('d') if self.bound else cloud.volume()
        cloud.set(volume, status='deleting')
        return {'volume': volume.id, 'other': other.id}

    def perform(self, cloud, made):
        volume = cloud.get(made['volume'])
        cloud.manager_of(volume).delete_volume(cloud.context, volume)

    def again(self, cloud, made):
        volume = cloud.get(made['volume'])
        if volume:
            cloud.set(volume, status='deleting')
            self.perform(cloud, made)

    def survived(self, cloud, made):
        expect_text(cloud, 'o', cloud.get(made['other']))

    def check(self, cloud, made):
        expect(None, cloud.get(made['volume']), 'volume')
        names = {name for _, name in cloud.held()}
        expect({f'volume-{made["other"]}'}, names, 'vdisks')


class DeleteUnbound(Delete):
    """Deletes a volume that has no bytes."""

    bound = False

    # to delete all is to repeat it
    ways = (AGAIN,)
    repairs = False


class Snapshot(Operation):
    """Takes a snapshot; a failed one is deleted by the user."""

    bound = True

    def prepare(self, cloud):
        volume = cloud.bound('v') if self.bound else cloud.volume()
        return {'volume': volume.id, **self._asked(cloud, volume)}

    def _asked(self, cloud, volume):
        return {'snapshot': cloud.set(cloud.snapshot(volume)).id}

    def perform(self, cloud, made):
        snapshot = cloud.get_snapshot(made['snapshot'])
        cloud.manager_of(snapshot.volume).create_snapshot(
            cloud.context, snapshot
        )

    def again(self, cloud, made):
        snapshot = cloud.get_snapshot(made['snapshot'])
        if snapshot.status == 'available':
            return
        cloud.set(snapshot, status='deleting')
        cloud.manager_of(snapshot.volume).delete_snapshot(
            cloud.context, snapshot
        )
        made.update(self._asked(cloud, cloud.get(made['volume'])))
        self.perform(cloud, made)

    def survived(self, cloud, made):
        if self.bound:
            expect_text(cloud, 'v', cloud.get(made['volume']))

    def check(self, cloud, made):
        snapshot = cloud.get_snapshot(made['snapshot'])
        expect('available', snapshot.status, 'status')
        expect(self.bound, bool(snapshot.provider_location), 'bound')
        if self.bound:
            cloud.write(cloud.get(made['volume']), 'w')
            expect_text(cloud, 'v', snapshot)


class SnapshotUnbound(Snapshot):
    """Takes a snapshot of a volume that has no bytes."""

    bound = False

    # a failed one is deleted before it is asked for again
    ways = (AGAIN,)
    repairs = False


class DeleteSnapshot(Operation):
    """Deletes a snapshot."""

    # to delete all is to repeat it; Delete has the repairs
    ways = (AGAIN,)
    repairs = False

    def prepare(self, cloud):
        volume = cloud.bound('v')
        snapshot = cloud.frozen(volume)
        cloud.set(snapshot, status='deleting')
        return {'volume': volume.id, 'snapshot': snapshot.id}

    def perform(self, cloud, made):
        snapshot = cloud.get_snapshot(made['snapshot'])
        cloud.manager_of(snapshot.volume).delete_snapshot(
            cloud.context, snapshot
        )

    def again(self, cloud, made):
        snapshot = cloud.get_snapshot(made['snapshot'])
        if snapshot:
            cloud.set(snapshot, status='deleting')
            self.perform(cloud, made)

    def survived(self, cloud, made):
        expect_text(cloud, 'v', cloud.get(made['volume']))

    def check(self, cloud, made):
        expect(None, cloud.get_snapshot(made['snapshot']), 'snapshot')
        names = {name for _, name in cloud.held()}
        expect({f'volume-{made["volume"]}'}, names, 'vdisks')


class Revert(Operation):
    """Reverts a volume to a snapshot of when it was smaller."""

    old = 'o'

    def prepare(self, cloud):
        volume, snapshot = self.frozen(cloud)
        volume = cloud.get(volume.id)
        cloud.write(volume, 'n')
        cloud.set(snapshot, status='restoring')
        cloud.set(volume, status='reverting')
        return {'volume': volume.id, 'snapshot': snapshot.id}

    def frozen(self, cloud):
        """Return a bound volume and a snapshot of it."""
        volume = cloud.bound(self.old)
        return volume, cloud.frozen(volume)

    def perform(self, cloud, made):
        volume = cloud.get(made['volume'])
        cloud.manager_of(volume).revert_to_snapshot(
            cloud.context, volume, cloud.get_snapshot(made['snapshot'])
        )

    def again(self, cloud, made):
        cloud.set(cloud.get(made['volume']), status='reverting')
        cloud.set(cloud.get_snapshot(made['snapshot']), status='restoring')
        self.perform(cloud, made)

    def survived(self, cloud, made):
        text = cloud.read(cloud.path(cloud.get(made['volume'])))
        if text not in ('n', self.old):
            raise AssertionError(f'the volume holds {text!r}')

    def check(self, cloud, made):
        volume = cloud.get(made['volume'])
        expect('available', volume.status, 'status')
        expect_text(cloud, self.old, volume)
        expect_size(cloud, volume.size, volume)


class RevertToUnbound(Revert):
    """Reverts a volume to a snapshot of when it had no bytes."""

    old = ''

    # Revert takes these steps and one more: it has the deletes and repairs
    ways = (AGAIN,)
    repairs = False

    def frozen(self, cloud):
        volume = cloud.volume()
        snapshot = cloud.frozen(volume)
        update = cloud.manager_of(volume).driver.create_export(
            cloud.context, volume, cloud_.CONNECTOR
        )
        return cloud.set(volume, **update), snapshot


class Migrate(Operation):
    """Moves a volume to the other medium of the host."""

    media = cloud_.MEDIA
    bound = True
    text = 'm'

    def prepare(self, cloud):
        volume = cloud.bound('m') if self.bound else cloud.volume()
        if self.bound:
            # it was attached before
            links.link(cloud.disk_root, volume.provider_location, volume.name)
        cloud.set(volume, migration_status='starting')
        return {'volume': volume.id}

    def perform(self, cloud, made):
        volume = cloud.get(made['volume'])
        cloud.manager_of(volume).migrate_volume(
            cloud.context, volume, cloud.backend('ssd')
        )

    def again(self, cloud, made):
        volume = cloud.get(made['volume'])
        # what an operator does with cinder reset-state
        cloud.set(volume, migration_status=None)
        if volume.host != cloud.backend('ssd')['host']:
            cloud.set(volume, migration_status='starting')
            self.perform(cloud, made)

    def survived(self, cloud, made):
        if self.bound:
            expect_text(cloud, 'm', cloud.get(made['volume']))

    def check(self, cloud, made):
        volume = cloud.get(made['volume'])
        expect(cloud.backend('ssd')['host'], volume.host, 'host')
        expect('available', volume.status, 'status')
        places = [disk for disk, _ in cloud.held()]
        ssds = [disk.uuid for disk in cloud.disks('ssd')]
        expect(ssds if self.bound else [], places, 'disks')
        if self.bound:
            expect_size(cloud, 1, volume)
            expect_text(cloud, self.text, volume)


class MigrateUnbound(Migrate):
    """Moves a volume that has no bytes."""

    bound = False


class Manage(Operation):
    """Makes a file on a disk a volume."""

    def prepare(self, cloud):
        disk = cloud.disks('hdd')[0]
        path = os.path.join(disk.path, 'vdisks', 'brought')
        with open(path, 'wb') as stream:
            stream.write(b'b' * (1 << 20))
            stream.truncate(2 * GIB - 5)
        cloud.publish()
        reference = {'source-name': f'{disk.uuid}/brought'}
        return {'reference': reference, **self._asked(cloud)}

    def _asked(self, cloud):
        return {'volume': cloud.volume(status='managing').id}

    def perform(self, cloud, made):
        volume = cloud.get(made['volume'])
        cloud.manager_of(volume).manage_existing(
            cloud.context, volume, made['reference']
        )

    def again(self, cloud, made):
        volume = cloud.get(made['volume'])
        if volume.status == 'available':
            return
        # the user deletes what could not be managed: it is let go of
        cloud.set(volume, status='error_managing_deleting')
        cloud.manager_of(volume).delete_volume(cloud.context, volume)
        (name,) = (name for _, name in cloud.held())
        disk, _, _ = made['reference']['source-name'].partition('/')
        made['reference'] = {'source-name': f'{disk}/{name}'}
        made.update(self._asked(cloud))
        self.perform(cloud, made)

    def survived(self, cloud, made):
        (path,) = cloud.files()
        with open(path, 'rb') as stream:
            expect(b'b' * (1 << 20), stream.read(1 << 20), path)

    def check(self, cloud, made):
        volume = cloud.get(made['volume'])
        expect('available', volume.status, 'status')
        expect(2, volume.size, 'size')
        expect_size(cloud, 2, volume)
        self.survived(cloud, made)


class Unmanage(Operation):
    """Lets go of a volume, whose bytes stay."""

    bound = True
    text = 'u'

    def prepare(self, cloud):
        volume = cloud.bound('u') if self.bound else cloud.volume()
        cloud.set(volume, status='unmanaging')
        return {'volume': volume.id}

    def perform(self, cloud, made):
        volume = cloud.get(made['volume'])
        cloud.manager_of(volume).delete_volume(
            cloud.context, volume, unmanage_only=True
        )

    def again(self, cloud, made):
        if cloud.get(made['volume']):
            self.perform(cloud, made)

    def survived(self, cloud, made):
        if self.bound:
            self._check_content(cloud)

    def _check_content(self, cloud):
        (path,) = cloud.files()
        expect(self.text, cloud.read(path), path)

    def check(self, cloud, made):
        expect(None, cloud.get(made['volume']), 'volume')
        names = [name for _, name in cloud.held()]
        expect([f'unmanaged-{made["volume"]}'], names, 'vdisks')
        self._check_content(cloud)


class UnmanageUnbound(Unmanage):
    """Lets go of a volume that has no bytes: it is given some first."""

    bound = False
    text = ''
    beside = Unmanage


class ManageSnapshot(Operation):
    """Makes a file on a volume's disk a snapshot of the volume."""

    # the same function manages a volume: Manage has the deletes and repairs
    ways = (AGAIN,)
    repairs = False

    def prepare(self, cloud):
        volume = cloud.bound('v')
        path = os.path.join(os.path.dirname(cloud.path(volume)), 'brought')
        with open(path, 'wb') as stream:
            stream.write(b'b' * (1 << 20))
            stream.truncate(GIB)
        cloud.publish()
        disk = volume.provider_location
        made = {'volume': volume.id, 'disk': disk}
        return {**made, 'name': 'brought', **self._asked(cloud, made)}

    def _asked(self, cloud, made):
        snapshot = cloud.snapshot(cloud.get(made['volume']))
        return {'snapshot': cloud.set(snapshot).id}

    def perform(self, cloud, made):
        snapshot = cloud.get_snapshot(made['snapshot'])
        cloud.manager_of(snapshot.volume).manage_existing_snapshot(
            cloud.context,
            snapshot,
            {'source-name': f'{made["disk"]}/{made["name"]}'},
        )

    def again(self, cloud, made):
        snapshot = cloud.get_snapshot(made['snapshot'])
        if snapshot.status == 'available':
            return
        cloud.set(snapshot, status='error')
        cloud.manager_of(snapshot.volume).delete_snapshot(
            cloud.context, snapshot, unmanage_only=True
        )
        # what had no bytes yet was given some, to be let go of
        name = os.path.basename(self._brought(cloud))
        made.update(name=name)
        made.update(self._asked(cloud, made))
        self.perform(cloud, made)

    def survived(self, cloud, made):
        self._brought(cloud)
        expect_text(cloud, 'v', cloud.get(made['volume']))

    @staticmethod
    def _brought(cloud):
        """Return where what was brought is now."""
        found = []
        for path in cloud.files():
            with open(path, 'rb') as stream:
                if stream.read(1 << 20) == b'b' * (1 << 20):
                    found.append(path)
        expect(1, len(found), 'vdisks with what was brought')
        return found[0]

    def check(self, cloud, made):
        snapshot = cloud.get_snapshot(made['snapshot'])
        expect('available', snapshot.status, 'status')
        expect_size(cloud, 1, snapshot)
        expect(cloud.path(snapshot), self._brought(cloud), 'path')


class UnmanageSnapshot(Operation):
    """Lets go of a snapshot, whose bytes stay."""

    # the same function lets go of a volume: Unmanage has deletes and repairs
    ways = (AGAIN,)
    repairs = False

    def prepare(self, cloud):
        volume = cloud.bound('s')
        snapshot = cloud.frozen(volume)
        cloud.write(volume, 'n')
        cloud.set(snapshot, status='unmanaging')
        return {'volume': volume.id, 'snapshot': snapshot.id}

    def perform(self, cloud, made):
        snapshot = cloud.get_snapshot(made['snapshot'])
        cloud.manager_of(snapshot.volume).delete_snapshot(
            cloud.context, snapshot, unmanage_only=True
        )

    def again(self, cloud, made):
        if cloud.get_snapshot(made['snapshot']):
            self.perform(cloud, made)

    def survived(self, cloud, made):
        volume = cloud.path(cloud.get(made['volume']))
        (path,) = (path for path in cloud.files() if path != volume)
        expect('s', cloud.read(path), path)
        expect('n', cloud.read(volume), volume)

    def check(self, cloud, made):
        expect(None, cloud.get_snapshot(made['snapshot']), 'snapshot')
        names = {name for _, name in cloud.held()}
        expect(True, f'unmanaged-{made["snapshot"]}' in names, 'unmanaged')
        self.survived(cloud, made)


class GroupSnapshot(Operation):
    """Takes the snapshots of a group that is to be consistent."""

    # failed ones are deleted before they are asked for again; Snapshot has
    # the repairs
    ways = (AGAIN,)
    repairs = False

    def prepare(self, cloud):
        type_ = cloud.group_type()
        group = objects.Group(
            cloud.context,
            status='available',
            group_type_id=type_,
            host='host1@hdd#hdd',
            user_id=cloud_.USER,
            project_id=cloud_.PROJECT,
            availability_zone='nova',
            volume_type_ids=[cloud.type_id],
        )
        group.create()
        volumes = [
            cloud.bound('g', group_id=group.id),
            cloud.bound('g', group_id=group.id),
            cloud.volume(group_id=group.id),
        ]
        made = {
            'type': type_,
            'group': group.id,
            'volumes': [volume.id for volume in volumes],
        }
        return {**made, **self._asked(cloud, made)}

    def _asked(self, cloud, made):
        group_snapshot = objects.GroupSnapshot(
            cloud.context,
            group_id=made['group'],
            group_type_id=made['type'],
            status='creating',
            user_id=cloud_.USER,
            project_id=cloud_.PROJECT,
        )
        group_snapshot.create()
        for volume_id in made['volumes']:
            snapshot = cloud.snapshot(cloud.get(volume_id))
            cloud.set(snapshot, group_snapshot_id=group_snapshot.id)
        return {'group_snapshot': group_snapshot.id}

    def perform(self, cloud, made):
        cloud.managers['hdd'].create_group_snapshot(
            cloud.context, self._get(cloud, made)
        )

    def _get(self, cloud, made):
        return objects.GroupSnapshot.get_by_id(
            cloud.context, made['group_snapshot']
        )

    def again(self, cloud, made):
        found = self._get(cloud, made)
        if found.status == 'available':
            return
        cloud.set_plain(found, status='deleting')
        for snapshot in found.snapshots:
            cloud.set(snapshot, status='deleting')
        cloud.managers['hdd'].delete_group_snapshot(cloud.context, found)
        made.update(self._asked(cloud, made))
        self.perform(cloud, made)

    def survived(self, cloud, made):
        for volume_id in made['volumes'][:2]:
            expect_text(cloud, 'g', cloud.get(volume_id))

    def check(self, cloud, made):
        expect('available', self._get(cloud, made).status, 'status')
        snapshots = [
            snapshot
            for volume_id in made['volumes']
            for snapshot in cloud.get(volume_id).snapshots
        ]
        expect(3, len(snapshots), 'snapshots')
        for snapshot in snapshots:
            expect('available', snapshot.status, 'status')
        bound = [one for one in snapshots if one.provider_location]
        expect(2, len(bound), 'bound snapshots')
        for snapshot in bound:
            cloud.write(snapshot.volume, 'h')
            expect_text(cloud, 'g', snapshot)


OPERATIONS = (
    Bind,
    CreateUnbound,
    CreateFromImage,
    CreateFromSnapshot,
    Extend,
    ExtendUnbound,
    Delete,
    DeleteUnbound,
    Snapshot,
    SnapshotUnbound,
    DeleteSnapshot,
    Revert,
    RevertToUnbound,
    Migrate,
    MigrateUnbound,
    Manage,
    Unmanage,
    UnmanageUnbound,
    ManageSnapshot,
    UnmanageSnapshot,
    GroupSnapshot,
)
