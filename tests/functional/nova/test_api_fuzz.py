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

"""Any request, by Nova's pipeline with the filter and without it.

``DISKPLACER_EXAMPLES`` is the number of requests, which are others each time
then; the outcomes are counted on standard error.
"""

import collections
import copy
import io
import json
import os
import sys
import urllib.parse

import fixtures
import hypothesis
from hypothesis import strategies as st
from nova import exception
from nova.api import wsgi as base_wsgi
from nova.objects import instance_mapping
from oslo_utils import uuidutils

from tests.functional.nova import base
from tests.functional.nova import test_api_filter

EXAMPLES = int(os.environ.get('DISKPLACER_EXAMPLES') or 0)
TYPE = test_api_filter.TYPE
# as Nova's fixture of Cinder has it
TYPE_ID = '5f9204ec-3e94-4f27-9beb-fe7bb73b6eb9'
VDISKS = 2
VDISK_GB = 20

IMAGE = '155d900f-4e14-4e4c-a73d-069cbf4541e6'
NOBODYS = '00000000-0000-4000-8000-00000000000'
FLAVORS = {
    'plain': {},
    'vdisks': {'vdisks': VDISKS, 'vdisk_gb': VDISK_GB, 'volume_type': TYPE},
    'faulty': {'vdisks': VDISKS},
}
# {name: (size, type, bootable)} of volumes that exist
EXISTING = {
    'vdisk': (VDISK_GB, TYPE, False),
    'small': (1, TYPE, False),
    'other': (VDISK_GB, 'other', False),
    'bootable': (VDISK_GB, TYPE, True),
}
SNAPSHOTS = {
    'snapshot': 'vdisk',
    'snapshot-of-other': 'other',
    'snapshot-of-bootable': 'bootable',
}

# Properties of images are their owners' business.
IMAGES = {
    'snapshots': [
        {
            'source_type': 'snapshot',
            'destination_type': 'volume',
            'snapshot_id': '$snapshot',
            'device_name': f'/dev/vd{letter}',
            'boot_index': None,
        }
        for letter in 'bc'
    ],
    'path': [
        {
            'source_type': 'snapshot',
            'destination_type': 'volume',
            'snapshot_id': 'a/../../b',
            'boot_index': None,
        }
    ],
    'sizes': [
        {
            'source_type': 'blank',
            'destination_type': 'volume',
            'volume_size': [],
            'boot_index': None,
        }
    ],
    'number': 5,
    'empty': [{}],
}

HOSTILE = st.sampled_from(
    (
        None,
        True,
        0,
        1,
        -1,
        2.0,
        1.5,
        10**30,
        float('inf'),
        float('nan'),
        '',
        ' ',
        '1',
        '01',
        '2\n',
        '１',
        '9' * 5000,
        'x' * 300,
        '\0',
        '\ud800',
        'ä€𝄞',
        '..',
        '.',
        'a/../../b',
        'http://stranger/any/v2/images/x',
        'http://[',
        '%00',
        f'{IMAGE}\n',
        f'{{{IMAGE}}}',
        f'urn:uuid:{IMAGE}',
        IMAGE.upper(),
        NOBODYS,
        [],
        {},
        [[]],
        [None],
        ['x'],
        [{}],
        {'id': IMAGE},
    )
)
COUNTS = st.one_of(st.sampled_from((1, 2, '2', 3)), HOSTILE)
IMAGES_ASKED = st.one_of(
    st.sampled_from(('', IMAGE, *(f'${name}' for name in IMAGES))), HOSTILE
)
SIZES = st.one_of(
    st.sampled_from((VDISK_GB, str(VDISK_GB), 1, VDISK_GB + 1)), HOSTILE
)
TYPES = st.one_of(
    st.sampled_from((TYPE, 'other', TYPE_ID, None)),
    HOSTILE,
)
SOURCES = st.sampled_from(
    tuple(f'${name}' for name in (*EXISTING, *SNAPSHOTS))
)


def mostly(usual, other, often=6):
    """Return a strategy that takes ``other`` once in ``often`` times."""
    return st.integers(1, often).flatmap(
        lambda n: other if n == often else usual
    )


def with_changes(strategy, keys):
    """Return a strategy of dictionaries with some keys changed or removed."""

    def changed(drawn):
        before, changes, gone = drawn
        after = {**before, **changes}
        return {key: after[key] for key in after if key not in gone}

    return st.tuples(
        strategy,
        mostly(
            st.just({}),
            st.dictionaries(st.sampled_from(keys), HOSTILE, max_size=2),
        ),
        mostly(st.just(()), st.lists(st.sampled_from(keys), max_size=1)),
    ).map(changed)


ROOT = st.just(
    {
        'source_type': 'image',
        'destination_type': 'local',
        'uuid': IMAGE,
        'boot_index': 0,
        'delete_on_termination': True,
    }
)
BLANK = st.fixed_dictionaries(
    {
        'source_type': st.just('blank'),
        'destination_type': st.just('volume'),
        'volume_size': mostly(st.just(VDISK_GB), SIZES),
        'boot_index': st.just(-1),
    },
    optional={'volume_type': mostly(st.just(TYPE), TYPES)},
)
OF_SOURCE = st.fixed_dictionaries(
    {
        'source_type': st.sampled_from(('volume', 'snapshot', 'image')),
        'destination_type': mostly(st.just('volume'), st.just('local')),
        'uuid': st.one_of(SOURCES, IMAGES_ASKED),
        'boot_index': st.sampled_from((-1, 0, None, '0', 1)),
    },
    optional={'volume_size': SIZES, 'volume_type': TYPES},
)
KEYS = (
    'source_type',
    'destination_type',
    'uuid',
    'boot_index',
    'volume_size',
    'volume_type',
    'device_name',
    'no_device',
    'delete_on_termination',
    'image_id',
    'volume_id',
    'snapshot_id',
    'guest_format',
    'tag',
    'unknown',
)
MAPPING = with_changes(st.one_of(ROOT, BLANK, OF_SOURCE), KEYS)
BLANKS_BROUGHT = st.tuples(ROOT, st.lists(BLANK, max_size=4)).map(
    lambda both: [both[0], *both[1]]
)
VDISKS_BROUGHT = st.tuples(ROOT, BLANK, BLANK).map(list)
MAPPINGS = st.one_of(
    st.lists(MAPPING, max_size=4),
    VDISKS_BROUGHT,
    BLANKS_BROUGHT,
    st.tuples(ROOT, MAPPING, MAPPING).map(list),
    HOSTILE,
)
LEGACY = st.one_of(
    st.lists(
        with_changes(
            st.fixed_dictionaries(
                {'device_name': st.sampled_from(('vda', 'vdb', '/dev/vdc'))},
                optional={
                    'volume_id': st.one_of(SOURCES, HOSTILE),
                    'snapshot_id': st.one_of(SOURCES, HOSTILE),
                    'volume_size': SIZES,
                },
            ),
            KEYS,
        ),
        max_size=3,
    ),
    HOSTILE,
)
FIELDS = {
    'name': HOSTILE,
    'imageRef': IMAGES_ASKED,
    'flavorRef': st.one_of(
        st.sampled_from(
            (
                '$plain',
                '$faulty',
                'http://nova/v2.1/flavors/$vdisks',
                'unknown',
            )
        ),
        HOSTILE,
    ),
    'min_count': COUNTS,
    'max_count': COUNTS,
    'block_device_mapping_v2': MAPPINGS,
    'block_device_mapping': LEGACY,
    'networks': st.one_of(st.sampled_from(('none', 'auto', [])), HOSTILE),
    'adminPass': HOSTILE,
    'metadata': st.one_of(st.just({'a': 'b'}), HOSTILE),
    'personality': HOSTILE,
    'user_data': HOSTILE,
    'config_drive': HOSTILE,
    'key_name': HOSTILE,
    'availability_zone': st.one_of(
        st.sampled_from(('nova', 'nowhere', 'nova:host')), HOSTILE
    ),
    'security_groups': HOSTILE,
    'return_reservation_id': st.one_of(st.just(True), HOSTILE),
    'tags': st.one_of(st.just(['a']), HOSTILE),
    'description': HOSTILE,
    'hostname': HOSTILE,
    'host': HOSTILE,
    'trusted_image_certificates': HOSTILE,
    'unknown': HOSTILE,
}
CHANGES = st.lists(st.sampled_from(sorted(FIELDS)), max_size=3).flatmap(
    lambda names: st.fixed_dictionaries({name: FIELDS[name] for name in names})
)


@st.composite
def servers(draw, has_networks):
    """Return a server to ask for, changed a little or a lot.

    :param has_networks: the microversion requires them.
    """
    server = {
        'name': 's',
        'flavorRef': draw(
            mostly(
                st.sampled_from(('$vdisks', '$vdisks', '$plain')),
                FIELDS['flavorRef'],
            )
        ),
        'imageRef': IMAGE,
        **({'networks': 'none'} if has_networks else {}),
        **draw(
            mostly(
                st.just({}),
                st.fixed_dictionaries({'block_device_mapping_v2': MAPPINGS}),
                1,
            )
        ),
        **draw(mostly(st.just({}), CHANGES, 2)),
    }
    gone = draw(mostly(st.just(()), st.sampled_from(sorted(server))))
    for name in gone if isinstance(gone, tuple) else (gone,):
        del server[name]
    return server


@st.composite
def bodies(draw, server):
    """Return a text for the server, and maybe no JSON at all."""
    body = {'server': server}
    kind = draw(
        mostly(
            st.just('object'),
            st.sampled_from(
                ('hints', 'more', 'hostile', 'nested', 'twice', 'raw')
            ),
            12,
        )
    )
    if kind == 'hints':
        body['os:scheduler_hints'] = draw(
            st.one_of(HOSTILE, st.dictionaries(st.just('group'), HOSTILE))
        )
    elif kind == 'more':
        body['unknown'] = draw(HOSTILE)
    elif kind == 'hostile':
        body = draw(st.one_of(HOSTILE, st.just({'server': draw(HOSTILE)})))
    text = json.dumps(body, ensure_ascii=draw(st.booleans()))
    if kind == 'nested':
        depth = draw(st.sampled_from((50, 5000)))
        text = '{"server":' * depth + text + '}' * depth
    elif kind == 'twice':
        text = text[:-1] + ', "server": ' + json.dumps(server) + '}'
    elif kind == 'raw':
        return draw(st.binary(max_size=40))
    # an infinite number needs no word of its own
    infinite = draw(st.sampled_from(('1e999', 'Infinity')))
    text = text.replace('Infinity', infinite)
    encoding = draw(
        mostly(
            st.just('utf-8'),
            st.sampled_from(('utf-16', 'utf-8-sig', 'utf-32-be', 'latin-1')),
            15,
        )
    )
    errors = 'replace' if encoding == 'latin-1' else 'surrogatepass'
    return text.encode(encoding, errors)


PATHS = mostly(
    st.sampled_from(('/servers', '/$project/servers')),
    st.one_of(
        st.sampled_from(
            (
                '/os-volumes_boot',
                '/servers/',
                '/servers//',
                '//servers',
                '/servers.json',
                '/servers.xml',
                '/SERVERS',
                '/servers%ff',
                '/%ff',
                '/servers%0a',
                '/servers%00',
                '/%2fservers',
                '/servers/detail',
                '/servers/$image',
                '/servers/$image/action',
                '/0123456789abcdef/servers',
                '/nobody/servers',
                '/flavors',
                '/',
                '',
            )
        ),
        st.binary(max_size=8).map(lambda b: '/' + urllib.parse.quote(b)),
    ),
    8,
)
QUERIES = mostly(
    st.just(''),
    st.sampled_from(
        (
            '_method=POST',
            '_method=post',
            '_method=GET',
            '_method=DELETE',
            '_method=%ff',
            '_method',
            '_method=',
            '_method=GET&_method=POST',
            'a=%ff',
            'name=%00',
        )
    ),
    8,
)
METHODS = mostly(
    st.just('POST'),
    st.sampled_from(('GET', 'PUT', 'HEAD', 'DELETE', 'PATCH', 'post', 'X')),
    8,
)
TYPES_OF_CONTENT = mostly(
    st.just('application/json'),
    st.sampled_from(
        (
            None,
            '',
            'text/plain',
            'text/xml',
            'application/json; charset=zz',
            'application/json;charset=utf-16',
            'application/vnd.openstack.compute+json',
            'application/x-www-form-urlencoded',
            'multipart/form-data; boundary=x',
            'a;b=c;;',
        )
    ),
    8,
)
# these require networks
AFTER_2_36 = ('2.37', '2.66', '2.67', 'latest')
VERSIONS = mostly(
    st.sampled_from((None, '2.1', '2.36', *AFTER_2_36)),
    st.sampled_from(
        (
            '2.0',
            '2.9999',
            '2.',
            '3.1',
            'newest',
            '',
            '2.٦',
            '2.67, compute 2.1',
            '-2.1',
        )
    ),
    12,
)
FRAMES = mostly(
    st.just('right'),
    st.sampled_from(
        (
            'chunks',
            'chunks',
            'none',
            'short',
            'long',
            'empty',
            'negative',
            'words',
            'too large',
        )
    ),
    5,
)


@st.composite
def requests(draw):
    """Return a request."""
    root = draw(mostly(st.just('/v2.1'), st.just('/v2'), 3))
    version = draw(VERSIONS)
    has_networks = root == '/v2.1' and version in (
        '2.37',
        '2.66',
        '2.67',
        'latest',
    )
    server = draw(servers(has_networks))
    return {
        'root': root,
        'path': draw(PATHS),
        'query': draw(QUERIES),
        'method': draw(METHODS),
        'content': draw(TYPES_OF_CONTENT),
        'version': version,
        'frame': draw(FRAMES),
        'text': draw(bodies(server)),
        'accept': draw(
            mostly(st.just('application/json'), st.just('a/b;q=x'))
        ),
    }


class Outcome:
    """What came of a request.

    :ivar status: of the answer, 599 if there was none.
    :ivar built: what nova-conductor is told to build.
    :ivar asked: the IDs that Cinder and Glance were asked for.
    """

    def __init__(self):
        self.status = 599
        self.text = b''
        self.built = []
        self.attached = []
        self.asked = []

    def start(self, status, headers, exc_info=None):
        self.status = int(status.split()[0])

    @property
    def effects(self):
        return self.built, self.attached


def _method(replacement):
    """Return a method of any class."""
    return lambda self, *args, **kwargs: replacement(*args, **kwargs)


class FuzzTest(base.CloudTestCase):
    hosts_count = 0

    def setUp(self):
        super().setUp()
        self.flags(instances=-1, cores=-1, ram=-1, group='quota')
        self.ids = {'image': IMAGE, 'project': self.api.project_id}
        self._make_flavors()
        self._make_volumes()
        self._make_images()
        self.outcome = Outcome()
        for name, replacement in (
            ('nova.volume.cinder.API.get', self._get_volume),
            ('nova.volume.cinder.API.get_snapshot', self._get_snapshot),
            ('nova.volume.cinder.API.attachment_create', self._attach),
            (
                'nova.conductor.api.ComputeTaskAPI.'
                'schedule_and_build_instances',
                self._build,
            ),
        ):
            self.useFixture(fixtures.MockPatch(name, _method(replacement)))
        show = self.glance.show
        self.useFixture(
            fixtures.MockPatchObject(
                self.glance,
                'show',
                lambda context, image_id, **kwargs: (
                    self.outcome.asked.append(image_id)
                    or show(context, image_id, **kwargs)
                ),
            )
        )
        plain = super().api_paste_config()
        self.stock = base_wsgi.Loader(plain).load_app('osapi_compute')
        self.flags(
            api_paste_config=test_api_filter.with_filter(self, plain),
            group='wsgi',
        )
        self.filtered = base_wsgi.Loader().load_app('osapi_compute')
        self.kinds = collections.Counter()

    def _make_flavors(self):
        for name, specs in FLAVORS.items():
            self.ids[name] = self.flavor(**specs)

    def _make_volumes(self):
        self.sources = {}
        for name, (size_gb, volume_type, bootable) in EXISTING.items():
            self.ids[name] = uuidutils.generate_uuid()
            self.sources[self.ids[name]] = {
                'id': self.ids[name],
                'display_name': name,
                'status': 'available',
                'attach_status': 'detached',
                'size': size_gb,
                'volume_type_id': volume_type,
                'multiattach': False,
                'availability_zone': 'nova',
                'bootable': bootable,
                'volume_image_metadata': {},
            }
        for name, volume in SNAPSHOTS.items():
            self.ids[name] = uuidutils.generate_uuid()
            self.sources[self.ids[name]] = {
                'id': self.ids[name],
                'volume_id': self.ids[volume],
                'size': EXISTING[volume][0],
            }

    def _make_images(self):
        for name, mappings in IMAGES.items():
            self.ids[name] = uuidutils.generate_uuid()
            image = copy.deepcopy(self.glance.image1)
            image['id'] = self.ids[name]
            image['properties'] = {
                **image['properties'],
                'bdm_v2': True,
                'block_device_mapping': self._named(mappings),
            }
            self.glance.create(None, image)

    def _named(self, value):
        return json.loads(self._with_ids(json.dumps(value)))

    def _with_ids(self, text):
        # the longest first: one name begins with another
        for name in sorted(self.ids, key=len, reverse=True):
            text = text.replace(f'${name}', self.ids[name])
        return text

    def _get_volume(self, context, volume_id, microversion=None):
        self.outcome.asked.append(volume_id)
        found = self.sources.get(volume_id, {})
        if 'status' not in found:
            raise exception.VolumeNotFound(volume_id=volume_id)
        return dict(found)

    def _get_snapshot(self, context, snapshot_id):
        self.outcome.asked.append(snapshot_id)
        found = self.sources.get(snapshot_id, {})
        if 'volume_id' not in found:
            raise exception.SnapshotNotFound(snapshot_id=snapshot_id)
        return dict(found)

    def _attach(self, context, volume_id, *args, **kwargs):
        self.outcome.attached.append(volume_id)
        return {'id': uuidutils.generate_uuid()}

    def _build(
        self,
        context,
        build_requests,
        request_spec,
        image,
        admin_password,
        injected_files,
        requested_networks,
        block_device_mapping,
        tags=None,
    ):
        """Keep what is asked for, and take it back."""
        mappings = [self._mapping(one) for one in block_device_mapping]
        for one in build_requests:
            server = one.instance
            self.outcome.built.append(
                {
                    'flavor': server.flavor.flavorid,
                    'mappings': mappings,
                    'server': [
                        str(getattr(server, name))
                        for name in (
                            'display_name',
                            'display_description',
                            'hostname',
                            'image_ref',
                            'metadata',
                            'user_data',
                            'key_name',
                            'config_drive',
                            'availability_zone',
                        )
                    ],
                    'files': str(injected_files),
                    'networks': str(requested_networks),
                    'tags': len(tags or ()),
                }
            )
            one.destroy()
            instance_mapping.InstanceMapping.get_by_instance_uuid(
                context, server.uuid
            ).destroy()

    def _mapping(self, bdm):
        return {
            name: getattr(bdm, name, None)
            for name in (
                'source_type',
                'destination_type',
                'volume_size',
                'volume_type',
                'volume_id',
                'snapshot_id',
                'image_id',
                'boot_index',
                'delete_on_termination',
                'device_name',
                'tag',
            )
        }

    def environ(self, request):
        """Return the environment of a request, by the protocol of WSGI."""
        # any bytes are characters of it
        text = self._with_ids(request['text'].decode('latin-1'))
        text = text.encode('latin-1')
        path = urllib.parse.unquote_to_bytes(self._with_ids(request['path']))
        environ = {
            'REQUEST_METHOD': request['method'],
            'SCRIPT_NAME': '',
            'PATH_INFO': request['root'] + path.decode('latin-1'),
            'QUERY_STRING': request['query'],
            'SERVER_NAME': 'nova',
            'SERVER_PORT': '80',
            'SERVER_PROTOCOL': 'HTTP/1.1',
            'REMOTE_ADDR': '127.0.0.1',
            'HTTP_HOST': 'nova',
            'HTTP_ACCEPT': request['accept'],
            'HTTP_X_AUTH_USER': 'user',
            'HTTP_X_AUTH_PROJECT_ID': self.ids['project'],
            'HTTP_X_ROLES': 'reader,member',
            'wsgi.version': (1, 0),
            'wsgi.url_scheme': 'http',
            'wsgi.input': io.BytesIO(text),
            'wsgi.errors': sys.stderr,
            'wsgi.multithread': False,
            'wsgi.multiprocess': False,
            'wsgi.run_once': False,
        }
        length = {
            'right': len(text),
            'short': len(text) // 2,
            'long': len(text) + 1,
            'empty': 0,
            'negative': -1,
            'words': 'words',
            'too large': 10**9,
        }.get(request['frame'])
        if length is not None:
            environ['CONTENT_LENGTH'] = str(length)
        if request['frame'] == 'chunks':
            environ['wsgi.input_terminated'] = True
        if request['content'] is not None:
            environ['CONTENT_TYPE'] = request['content']
        if request['version'] is not None:
            environ['HTTP_OPENSTACK_API_VERSION'] = (
                'compute ' + request['version']
            )
        return environ

    def send(self, app, request):
        """Send a request, and return what came of it."""
        self.outcome = Outcome()
        try:
            answer = app(self.environ(request), self.outcome.start)
            self.outcome.text = b''.join(answer)
        except Exception as error:
            self.outcome.status = 599
            self.outcome.text = repr(error).encode()
        return self.outcome

    def check(self, request):
        stock = self.send(self.stock, request)
        filtered = self.send(self.filtered, request)
        self.kinds[f'{stock.status} {filtered.status}'] += 1
        told = (request, stock.__dict__, filtered.__dict__)
        if stock.status < 500:
            self.assertLess(filtered.status, 500, told)
        self._check_questions(stock, filtered, told)
        flavors = {one['flavor'] for one in stock.built + filtered.built}
        if self.ids['vdisks'] in flavors or self.ids['faulty'] in flavors:
            self._check_vdisks(stock, filtered, told)
        elif filtered.status != stock.status:
            # both refuse it: the filter says first what is wrong
            self.kinds['both refuse'] += 1
            self.assertIn(filtered.status, (400, 403), told)
            self.assertIn(stock.status, range(400, 500), told)
            self.assertEqual(([], []), filtered.effects, told)
        else:
            self.kinds['same'] += 1
            self.assertEqual(stock.effects, filtered.effects, told)

    def _check_questions(self, stock, filtered, told):
        """What Nova does not ask for, the filter asks for by UUIDs only."""
        for name in filtered.asked:
            if name not in stock.asked:
                self.assertTrue(uuidutils.is_uuid_like(name), told)
        if b'Invalid input for field' in stock.text:
            self.kinds['invalid'] += 1
            self.assertEqual(stock.text, filtered.text, told)
            self.assertEqual([], filtered.asked, told)

    def _check_vdisks(self, stock, filtered, told):
        """A server with vdisks gets its vdisks, or is refused."""
        if not filtered.built:
            self.kinds['refused'] += 1
            self.assertIn(filtered.status, (400, 403), told)
            self.assertEqual([], filtered.attached, told)
            return
        self.kinds['vdisks'] += 1
        self.assertEqual(stock.status, filtered.status, told)
        self.assertEqual(stock.attached, filtered.attached, told)
        self.assertEqual(
            [{**one, 'mappings': None} for one in stock.built],
            [{**one, 'mappings': None} for one in filtered.built],
            told,
        )
        for before, after in zip(stock.built, filtered.built, strict=True):
            for mapping in before['mappings']:
                self.assertIn(mapping, after['mappings'], told)
            vdisks = [
                mapping
                for mapping in after['mappings']
                if self._is_vdisk(mapping)
            ]
            self.assertEqual(VDISKS, len(vdisks), told)
            if len(after['mappings']) > len(before['mappings']):
                self.kinds['completed'] += 1

    def _is_vdisk(self, mapping):
        """Return whether a volume is a vdisk, by the administrator's manual.

        One that a server may boot from is none.
        """
        if mapping['destination_type'] != 'volume':
            return False
        if mapping['boot_index'] == 0 or mapping['source_type'] == 'image':
            return False
        size_gb, of_type = mapping['volume_size'], mapping['volume_type']
        source = self.sources.get(
            mapping['volume_id'] or mapping['snapshot_id']
        )
        if source is not None:
            size_gb = size_gb or source['size']
            source = self.sources.get(source.get('volume_id'), source)
            of_type = of_type or source['volume_type_id']
            if source['bootable']:
                return False
        return size_gb == VDISK_GB and of_type in (None, TYPE, TYPE_ID)

    def test_requests(self):
        @hypothesis.settings(
            max_examples=EXAMPLES or 150,
            derandomize=not EXAMPLES,
            deadline=None,
            database=None,
            suppress_health_check=list(hypothesis.HealthCheck),
        )
        @hypothesis.given(requests())
        def run(request):
            self.check(request)

        try:
            run()
        finally:
            if EXAMPLES:
                print(dict(self.kinds), file=sys.stderr)
        # a generator that makes nonsense only would prove nothing
        for kind in ('same', 'invalid', 'refused', 'completed'):
            self.assertGreater(self.kinds[kind], 0, self.kinds)
