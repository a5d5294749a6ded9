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

"""diskplacer-manage disk audit, against what crashes and people leave."""

import collections
import json
import os
import shutil
import subprocess
import sys
import threading
import time
import uuid
from wsgiref import simple_server

from sqlalchemy import event
from testtools import content

from cinder_vdisk_mapper import nova_api
from cinder_vdisk_mapper.cinder_api.releases import models
from nova_diskplacer.disks import links
from nova_diskplacer.disks.filesystem import vdisks
from nova_diskplacer.placement import client as placement_client
from tests.functional.crash import cloud as cloud_
from tests.functional.crash import operations
from tests.functional.crash import test_walk
from tests.functional.crash import walk
from tests.functional.crash.cloud import GIB

COMMAND = os.path.join(os.path.dirname(sys.executable), 'diskplacer-manage')


class AuditTestCase(test_walk.CrashTestCase):
    def audit(self, scenario):
        """Run a scenario in a process of its own and return what it tells."""
        return self.call(_run, scenario)

    def test_agrees(self):
        (result,) = self.audit(_agrees)
        self.assertEqual((0, [], []), _shown(result))

    def test_repairs(self):
        found, repaired, after = self.audit(_wrong)
        left = ['disk-forgotten', 'lost', 'unknown']
        kinds = [
            'disk-forgotten',
            'lost',
            'not-recorded',
            'not-recorded',
            'orphan',
            'orphan',
            'second-copy',
            'unknown',
            'wrong-figures',
            'wrong-size',
        ]
        self.assertEqual((3, kinds, []), _shown(found))
        status, remain, done = _shown(repaired)
        self.assertEqual((3, left), (status, remain))
        self.assertEqual({*kinds} - {*left}, {*done})
        self.assertEqual((3, left, []), _shown(after))

    def test_table(self):
        (result,) = self.audit(_table)
        self.assertEqual(0, result['status'])
        self.assertIn('Repaired:', result['output'])
        self.assertNotIn('Findings:', result['output'])
        self.assertIn('| orphan ', result['output'])
        self.assertIn('| wrong-figures ', result['output'])

    def test_claims_that_are_lost(self):
        found, repaired, after = self.audit(_lost_claims)
        self.assertEqual((3, ['unclaimed'], []), _shown(found))
        self.assertEqual((0, [], ['unclaimed']), _shown(repaired))
        self.assertEqual((0, [], []), _shown(after))

    def test_queries_do_not_grow_with_what_is_found(self):
        few, many, most = (
            self.call(_count, number) for number in (10, 100, 600)
        )
        self.assertEqual(few['asked'], many['asked'])
        # a query for each 500 vdisks, in five looks
        self.assertLess(
            most['asked']['database'], few['asked']['database'] + 25
        )
        self.assertEqual(
            {**few['asked'], 'database': 0},
            {**most['asked'], 'database': 0},
        )
        self.addDetail('most', content.text_content(str(most)))

    def test_errors(self):
        for result in self.audit(_errors):
            self.assertEqual(1, result['status'], result)
            self.assertEqual('', result['output'])
            self.assertIn(result['expected'], result['stderr'])


def _shown(result):
    shown = json.loads(result['output'])
    return (
        result['status'],
        [one['kind'] for one in shown['findings']],
        [one['kind'] for one in shown['repaired']],
    )


def _run(scenario):
    told, _ = walk.CLOUD.forked(_in_fork, scenario)
    return told


def _in_fork(tell, scenario):
    cloud = walk.CLOUD
    directory = os.path.join(os.path.dirname(cloud.disk_root), 'served')
    os.makedirs(directory, exist_ok=True)
    with _served(cloud.placement_app) as placement:
        nova = cloud_.stubs.NovaAPI()
        nova.servers = {
            one: {'id': one} for one in (cloud_.SERVER, cloud_.CLAIMING)
        }
        with _served(nova._application) as compute:
            source = os.path.join(os.path.dirname(directory), 'cinder.conf')
            path = os.path.join(directory, 'cinder.conf')
            with open(source, encoding='utf-8') as stream:
                text = stream.read()
            text = text.replace(cloud_.stubs.PLACEMENT, placement)
            text = text.replace(cloud_.stubs.NOVA, compute)
            with open(path, 'w', encoding='utf-8') as stream:
                stream.write(text)

            def audit(*arguments, conf=path, **also):
                done = subprocess.run(
                    [
                        COMMAND,
                        'disk',
                        'audit',
                        f'--cinder-config-file={conf}',
                        *arguments,
                    ],
                    capture_output=True,
                    text=True,
                )
                tell(
                    status=done.returncode,
                    output=done.stdout,
                    stderr=done.stderr,
                    **also,
                )

            audit.nova = nova
            scenario(cloud, audit)


class _served:
    """Serves a WSGI application; is the URL in a with statement."""

    def __init__(self, application):
        self.server = simple_server.make_server(
            '127.0.0.1', 0, application, handler_class=_Quiet
        )

    def __enter__(self):
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return f'http://127.0.0.1:{self.server.server_port}'

    def __exit__(self, *args):
        self.server.shutdown()
        self.server.server_close()


class _Quiet(simple_server.WSGIRequestHandler):
    def log_message(self, *args):
        pass


def _json(audit, *arguments):
    audit('--format=json', *arguments)


def _agrees(cloud, audit):
    cloud.restart(('hdd',))
    volume = cloud.bound('a')
    cloud.frozen(volume)
    cloud.volume()
    unmanaged = cloud.bound('b')
    operations.Unmanage().perform(cloud, {'volume': unmanaged.id})
    # somebody is at it, and another has left a file
    cloud.set(cloud.bound('c'), status='retyping', provider_location=None)
    path = os.path.join(cloud.disks('ssd')[0].path, 'vdisks', 'foreign')
    with open(path, 'wb') as stream:
        stream.truncate(1 << 20)
    cloud.publish()
    _json(audit)


def _wrong(cloud, audit):
    cloud.restart(cloud_.MEDIA)
    ssd = cloud.disks('ssd')[0].path
    kept = cloud.bound('k')
    snapshot = cloud.frozen(kept)
    untold = cloud.bound('u')
    cloud.set(untold, provider_location=None)
    cloud.set(snapshot, provider_location=None)
    twice = cloud.bound('t')
    vdisks.create(ssd, twice.name, twice.id, None, GIB)
    short = cloud.bound('s')
    frozen = cloud.frozen(short)
    os.truncate(cloud.path(short), GIB // 2)
    gone = cloud.bound('g')
    gone.destroy()
    frozen.destroy()
    lost = cloud.bound('l', medium='ssd')
    os.unlink(cloud.path(lost))
    # of another driver, before cinder.conf was changed
    cloud.volume(provider_location='nfs.test:/share')
    stranger = str(uuid.uuid4())
    vdisks.create(ssd, f'volume-{stranger}', stranger, None, 2 * GIB)
    before = set(cloud.held())
    _json(audit)
    _json(audit, '--repair')
    _json(audit)
    after = set(cloud.held())
    ssd_uuid = os.path.basename(ssd)
    operations.expect(
        {gone.name, frozen.name, (ssd_uuid, twice.name)},
        {one if one[1] == twice.name else one[1] for one in before - after},
        'what was deleted',
    )
    for record, text in ((kept, 'k'), (untold, 'u'), (twice, 't')):
        record = cloud.get(record.id)
        operations.expect_text(cloud, text, record)
    operations.expect_text(cloud, 'k', cloud.get_snapshot(snapshot.id))
    operations.expect_size(cloud, 1, cloud.get(short.id))


def _table(cloud, audit):
    cloud.restart(('hdd',))
    cloud.bound('g').destroy()
    ssd = cloud.disks('ssd')[0]
    path = os.path.join(ssd.path, 'vdisks', 'foreign')
    with open(path, 'wb') as stream:
        stream.truncate(GIB)
    audit('--repair')
    offered, there = cloud.offered(ssd.uuid)
    operations.expect(there, offered, 'GiB that are offered')


def _lost_claims(cloud, audit):
    """A server has a vdisk, and what it asks for, but claims other things."""
    disk, other = cloud.disks('hdd')[0], cloud.disks('ssd')[0]
    audit.nova.add(
        cloud_.SERVER,
        cloud_.PROJECT,
        'host1',
        {
            'diskplacer:vdisks': '1',
            'diskplacer:vdisk_gb': '1',
            'diskplacer:vdisk_mbps': '20',
        },
    )
    volume = cloud.volume(provider_location=disk.uuid, status='in-use')
    vdisks.create(disk.path, volume.name, volume.id, cloud_.SERVER, GIB)
    links.link(cloud.disk_root, disk.uuid, volume.name)
    client = cloud.client
    client._call(
        'put',
        f'/allocations/{cloud_.SERVER}',
        {
            'allocations': {
                other.uuid: {'resources': {placement_client.MBPS: 1}}
            },
            'project_id': cloud_.PROJECT,
            'user_id': cloud_.USER,
            'consumer_generation': None,
            'consumer_type': 'INSTANCE',
        },
    )
    cloud.publish()
    _json(audit)
    _json(audit, '--repair')
    _json(audit)
    claimed = client.allocations(cloud_.SERVER).resources
    operations.expect(
        {
            disk.uuid: {placement_client.GB: 1, placement_client.MBPS: 20},
            other.uuid: {placement_client.MBPS: 1},
        },
        claimed,
        'claims',
    )
    client._call('delete', f'/allocations/{cloud_.SERVER}')
    volume.destroy()
    vdisks.delete(disk.path, volume.name)
    cloud.publish()


def _count(number):
    """Repair orphans; returns what was asked for that, and the seconds."""
    (told,), _ = walk.CLOUD.forked(_counted, number)
    return told


def _counted(tell, number):
    cloud = walk.CLOUD
    ids = [str(uuid.uuid4()) for _ in range(number)]
    (engine, _) = cloud.engines
    with engine.begin() as connection:
        connection.execute(
            models.Volume.__table__.insert(),
            [
                {
                    'id': id_,
                    'volume_type_id': cloud.type_id,
                    'size': 1,
                    'status': 'deleted',
                    'host': 'host1@hdd#hdd',
                    'deleted': True,
                    'use_quota': False,
                }
                for id_ in ids
            ],
        )
    paths = [disk.path for disk in cloud.disks()]
    for index, id_ in enumerate(ids):
        path = paths[index % len(paths)]
        vdisks.create(path, f'volume-{id_}', id_, None, 4096)
    cloud.publish()
    asked = collections.Counter()
    event.listen(
        engine,
        'before_cursor_execute',
        lambda *args: asked.update(['database']),
    )

    def answer(environ, start_response):
        asked['placement'] += 1
        return cloud.placement_app(environ, start_response)

    cloud.answer = answer
    host = cloud.audited
    of_hosts = nova_api.of_hosts

    def of_hosts_(*args):
        asked['nova'] += 1
        return of_hosts(*args)

    nova_api.of_hosts = of_hosts_
    begun = time.monotonic()
    repaired = host.repair(host.audit())
    took = time.monotonic() - begun
    operations.expect(
        number, len([one for one in repaired if one.kind == 'orphan']), 'done'
    )
    operations.expect([], cloud.files(), 'files')
    tell(asked=asked, seconds=round(took, 1))


def _errors(cloud, audit):
    directory = os.path.join(os.path.dirname(cloud.disk_root), 'served')
    with open(os.path.join(directory, 'cinder.conf')) as stream:
        good = stream.read()
    for number, (text, bad, expected) in enumerate(
        (
            ('VDiskMapperDriver', 'OtherDriver', "['hdd', 'ssd']"),
            ('sqlite:///', 'sqlite:////nowhere', '[database] connection'),
            ('auth_type = admin_token', '', 'auth_type'),
            ('endpoint = http://127', 'endpoint = http://127.1', 'Placement'),
        )
    ):
        path = os.path.join(directory, f'{number}.conf')
        with open(path, 'w') as stream:
            stream.write(good.replace(text, bad))
        audit(conf=path, expected=expected)
    shutil.rmtree(directory)
