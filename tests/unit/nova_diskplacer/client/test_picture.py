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

import collections
import html.parser

from hypothesis import given
from hypothesis import strategies as st
from oslotest import base

from nova_diskplacer import constants
from nova_diskplacer.client import facts as facts_
from nova_diskplacer.client import picture
from nova_diskplacer.client import vdisk_map

Element = collections.namedtuple('Element', 'tag classes attributes parents')


class Document(html.parser.HTMLParser):
    """The elements of a page; every one that opens must close."""

    VOID = ('meta', 'input')

    def __init__(self, text):
        super().__init__()
        self.open, self.elements, self.text = [], [], []
        self.feed(text)
        assert not self.open, self.open

    def handle_starttag(self, tag, attrs):
        attributes = dict(attrs)
        element = Element(
            tag,
            attributes.get('class', '').split(),
            attributes,
            tuple(self.open),
        )
        self.elements.append(element)
        if tag not in self.VOID:
            self.open.append(element)

    def handle_endtag(self, tag):
        assert self.open.pop().tag == tag

    def handle_data(self, data):
        self.text.append(data)

    def all(self, *classes, **attributes):
        return [
            one
            for one in self.elements
            if {*classes} <= {*one.classes}
            and attributes.items() <= one.attributes.items()
        ]

    def disks(self):
        """Return the disks; the legend has examples of some."""
        return [
            one for one in self.all('disk') if 'data-disk' in one.attributes
        ]


def draw(facts, findings=()):
    return Document(picture.page(facts, vdisk_map.entries(facts), findings))


def one_disk(**fields):
    disk = facts_.Disk('d1', 'h', **{'total_gb': 100, **fields})
    return facts_.Facts({'d1': disk}, {}, [], {})


class PageTest(base.BaseTestCase):
    def test_whose_vdisk_is_where(self):
        page = draw(
            facts_.Facts(
                {
                    'a1': facts_.Disk(
                        'a1',
                        'host-a.example.org',
                        total_gb=100,
                        claimed_gb=30,
                        reserved_gb=20,
                    ),
                    'b1': facts_.Disk('b1', 'host-b', total_gb=50),
                },
                {'a1': {'s1': 30}},
                [facts_.VDisk('v1', 'a1', 25, 's1', device='vdb')],
                {'s1': facts_.Server('s1', 'web')},
            )
        )
        self.assertEqual(
            ['host-a.example.org', 'host-b'],
            [one.attributes['data-host'] for one in page.all('host')],
        )
        (disk,) = page.all('disk', **{'data-disk': 'a1'})
        bar = [
            (*one.classes, one.attributes['data-gb'], one.attributes['style'])
            for one in page.elements
            if disk in one.parents and 'data-gb' in one.attributes
        ]
        hue = bar[0][-1].partition(';')[2]
        self.assertEqual(
            [
                ('vdisk', 'ok', '25', f'width:25.00%;{hue}'),
                ('vdisk', 'pending', '5', f'width:5.00%;{hue}'),
                ('reserved', '20', 'width:20.00%'),
                ('free', '50', 'width:50.00%'),
            ],
            bar,
        )
        (vdisk,) = page.all('vdisk', 'ok', **{'data-server': 's1'})
        self.assertIn('web vdb 25 GiB', vdisk.attributes['title'])

    def test_states(self):
        for fields, expected in (
            ({}, []),
            ({'claimed_gb': 100}, ['full']),
            ({'pressure': 80}, ['pressed']),
            ({'pressure': 49}, []),
            ({'pressure': 80, 'reserved_gb': 100}, ['full', 'pressed']),
            ({'health': constants.HUNG, 'pressure': 80}, ['unhealthy']),
            ({'idle': True, 'claimed_gb': 100}, ['full', 'idle']),
            ({'idle': True, 'pressure': 80}, ['pressed']),
            ({'idle': True, 'health': constants.HUNG}, ['unhealthy']),
        ):
            page = draw(one_disk(**fields))
            (disk,) = page.disks()
            self.assertEqual(['disk', *expected], disk.classes)

    def test_findings_and_silent_hosts(self):
        facts = facts_.Facts(
            one_disk().disks, {}, [], {}, missing_hosts=('h',)
        )
        page = draw(facts, [vdisk_map.Finding('pending', 'h', 's1', '5 GiB')])
        self.assertEqual(1, len(page.all(**{'data-kind': 'pending'})))
        self.assertEqual(1, len(page.all('host', 'silent')))

    def test_names_are_text(self):
        name = '<script>alert("x")</script>'
        page = draw(
            facts_.Facts(
                {'d1': facts_.Disk('d1', name, total_gb=9)},
                {'d1': {'s1': 5}},
                [],
                {'s1': facts_.Server('s1', name)},
            )
        )
        self.assertEqual(
            1, len([e for e in page.elements if e.tag == 'script'])
        )
        (vdisk,) = page.all('vdisk', 'pending', **{'data-server': 's1'})
        self.assertEqual(name, vdisk.attributes['data-name'])

    def test_self_contained(self):
        page = draw(one_disk())
        for one in page.elements:
            self.assertNotIn(one.tag, ('link', 'img', 'iframe'))
            self.assertNotIn('src', one.attributes)
        self.assertNotIn('url(', ''.join(page.text))

    @given(
        st.integers(1, 50),
        st.lists(st.integers(1, 10), max_size=4),
        st.lists(st.integers(1, 10), max_size=4),
        st.lists(st.integers(1, 10), max_size=4),
    )
    def test_a_bar_is_as_long_as_its_disk(
        self, more, claimed, others, extended
    ):
        # by so much are vdisks larger than their claims
        extended = extended[: len(claimed)]
        reserved = sum(others) + sum(extended)
        total = sum(claimed) + reserved + more
        disk = facts_.Disk(
            'd1',
            'h',
            total_gb=total,
            claimed_gb=sum(claimed),
            reserved_gb=reserved,
        )
        facts = facts_.Facts(
            {'d1': disk},
            {'d1': {f's{n}': gb for n, gb in enumerate(claimed)}},
            [
                facts_.VDisk(f'v{n}', 'd1', gb, None)
                for n, gb in enumerate(others[1:])
            ]
            + [
                facts_.VDisk(f'e{n}', 'd1', claimed[n] + gb, f's{n}')
                for n, gb in enumerate(extended)
            ],
            {},
        )
        page = draw(facts)
        self.assertEqual(
            total,
            sum(
                int(one.attributes['data-gb'])
                for one in page.elements
                if 'data-gb' in one.attributes
            ),
        )
