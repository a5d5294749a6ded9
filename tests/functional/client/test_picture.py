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

"""The picture of the map, as a browser shows it."""

import os
import tempfile

from oslotest import base

from tools import browser
from tools import map_picture

HOSTS = 100
WIDTH = 1280

# Elements that take room on the page.
VISIBLE = """
[...document.querySelectorAll('{}')].filter(
    one => one.checkVisibility() && one.offsetWidth > 2).length
"""

# What tells the state of a disk: the sign before its name, and its border.
LOOKS = """
[...document.querySelectorAll('#hosts .disk')].map(disk => {
    const bar = getComputedStyle(disk.querySelector('.bar'));
    const sign = getComputedStyle(disk.querySelector('.name'), '::before');
    return [disk.dataset.states, [
        sign.content, bar.borderTopStyle, bar.borderTopColor,
        bar.borderTopWidth].join()];
})
"""

CHOSEN = """
[...document.querySelectorAll('.chosen')].map(one => one.dataset.volume)
"""


class PictureTest(base.BaseTestCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        directory = tempfile.TemporaryDirectory()
        cls.addClassCleanup(directory.cleanup)
        cls.path = os.path.join(directory.name, 'map.html')
        cls.facts = map_picture.draw(cls.path, HOSTS)
        opened = browser.open_page(WIDTH, 900)
        cls.page = opened.__enter__()
        cls.addClassCleanup(opened.__exit__, None, None, None)

    def setUp(self):
        super().setUp()
        self.page.resize(WIDTH, 900)
        self.page.emulate()
        self.page.errors.clear()
        self.page.load(self.path)
        self.addCleanup(lambda: self.assertEqual([], self.page.errors))

    def visible(self, selector):
        return self.page.run(VISIBLE.format(selector))

    def volumes_of(self, server):
        return sorted(
            one.id for one in self.facts.vdisks if one.server_id == server
        )

    def server_with_vdisks(self):
        """Return a server whose name is the start of no other one's."""
        return next(
            server
            for server in self.facts.servers.values()
            if self.volumes_of(server.id) and server.name.endswith('-109')
        )

    def test_everything_is_visible(self):
        self.assertEqual(HOSTS, self.visible('.host'))
        self.assertEqual(len(self.facts.disks), self.visible('#hosts .disk'))
        self.assertEqual(
            len(self.facts.vdisks),
            self.visible('#hosts .vdisk:not(.pending)'),
        )
        self.assertEqual(
            sum(map(len, self.facts.claims.values())),
            self.visible('#hosts .vdisk:not(.unclaimed)'),
        )

    def test_nothing_is_wider_than_the_window(self):
        for width in (WIDTH, 600):
            self.page.resize(width, 900)
            self.assertEqual(
                width, self.page.run('document.documentElement.scrollWidth')
            )

    def test_text_is_readable(self):
        for medium, scheme in (('', 'light'), ('', 'dark'), ('print', '')):
            self.page.emulate(medium, scheme)
            self.page.run(
                'document.querySelectorAll("details").forEach('
                'one => { one.open = true; })'
            )
            texts = self.page.texts()
            self.assertLess(HOSTS, len(texts))
            for name, size, contrast in texts:
                self.assertLessEqual(12, size, name)
                self.assertLessEqual(4.5, contrast, (scheme, name))

    def test_states_of_disks_look_different(self):
        looks = {}
        for states, look in self.page.run(LOOKS):
            looks.setdefault(states, set()).add(look)
        self.assertEqual({'', 'full', 'pressed', 'unhealthy'}, looks.keys())
        for look in looks.values():
            self.assertEqual(1, len(look))
        self.assertEqual(4, len(set.union(*looks.values())))

    def test_the_field_restricts_and_marks(self):
        server = self.server_with_vdisks()
        self.page.type('#filter', server.name.upper())
        self.assertEqual(1, self.visible('.host'))
        self.assertEqual(
            self.volumes_of(server.id), sorted(self.page.run(CHOSEN))
        )
        self.page.type('#filter', 'hung')
        hung = [one for one in self.facts.disks.values() if one.health != 'ok']
        self.assertEqual(len(hung), self.visible('.host'))
        self.page.type('#filter', 'nothing of that name')
        self.assertEqual(0, self.visible('.host'))
        self.page.type('#filter', '')
        self.assertEqual(HOSTS, self.visible('.host'))
        self.assertEqual([], self.page.run(CHOSEN))

    def test_a_click_marks_the_vdisks_of_the_server(self):
        server = self.server_with_vdisks()
        vdisk = f'#hosts .vdisk[data-server="{server.id}"]'
        self.page.click(vdisk)
        self.assertEqual(
            self.volumes_of(server.id), sorted(self.page.run(CHOSEN))
        )
        self.assertEqual(1, self.visible('.host'))
        self.page.click(vdisk)
        self.assertEqual([], self.page.run(CHOSEN))
        self.assertEqual(HOSTS, self.visible('.host'))

    def test_a_click_on_a_finding_shows_its_host(self):
        self.assertEqual(0, self.visible('#findings button'))
        for kind in ('health', 'pending', 'silent'):
            self.page.run(
                f'document.querySelector("[data-kind={kind}]")'
                '.closest("details").open = true'
            )
            self.page.click(f'[data-kind={kind}] button')
            self.assertEqual(1, self.visible('.host'), kind)
            self.page.click(f'[data-kind={kind}] button')
