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

import dataclasses
import io
import json

import fixtures
from hypothesis import given
from hypothesis import strategies as st
from oslo_config import cfg
from oslo_config import fixture as config_fixture
from oslotest import base

from nova_diskplacer import conf as options
from nova_diskplacer import exception
from nova_diskplacer.cmd import manage
from nova_diskplacer.cmd import screen
from nova_diskplacer.monitor import status
from nova_diskplacer.monitor import status_socket
from tests.unit.nova_diskplacer.monitor import example


def text(state, now=1000.0, width=None, height=None):
    lines = screen.lines(state, now, width, height)
    return '\n'.join(line.text for line in lines)


def changed(pairs=(), **changes):
    """Return the example with other columns of pairs, and fields."""
    state = example.take()()
    columns = dataclasses.replace(state.pairs, **dict(pairs))
    return dataclasses.replace(state, pairs=columns, **changes)


def many(disks, servers):
    """Return a round of many servers on many disks."""
    names = [f'd{n:07d}-0000' for n in range(disks)]
    pairs = tuple(
        sorted((f's{n:07d}-0000', names[n % disks]) for n in range(servers))
    )
    return example.take(
        round=example.round_(1.0, pairs, range(servers)),
        states={
            name: example.state(name, f'sd{n}', warnings=('it is slow',) * 2)
            for n, name in enumerate(names)
        },
        decision=None,
        budgets=None,
    )()


class ScreenTest(base.BaseTestCase):
    def test_disks_and_servers_with_the_busiest_first(self):
        lines = text(example.take()()).splitlines()
        (disks,) = [n for n, line in enumerate(lines) if 'DEVICE' in line]
        self.assertIn(example.HDD, lines[disks + 1])
        self.assertIn(example.NVME, lines[disks + 2])
        (servers,) = [n for n, line in enumerate(lines) if 'BUDGET' in line]
        self.assertEqual(
            [example.LONG, example.SMALL, example.SMALL, example.BACKUP],
            [line.split()[0] for line in lines[servers + 1 :]],
        )

    def test_what_is_told_of_a_disk(self):
        (row,) = [
            line.split()
            for line in text(example.take()()).splitlines()
            if line.startswith(example.HDD)
        ]
        self.assertEqual(
            [
                example.HDD, 'sda', '101.0', '50.5', '75%', '12.5', '8.0',
                '67.0', '50%', 'bfq',
            ],
            row,
        )  # fmt: skip

    def test_what_is_told_of_a_server(self):
        row, *_ = [
            line.split()
            for line in text(example.take()()).splitlines()
            if line.startswith(example.LONG)
        ]
        self.assertEqual(
            [
                example.LONG, 'instance-00000001', 'sda', '100.0', '50.0',
                '1500', '1.0', '5', '2.97', 'seeks',
            ],
            row,
        )  # fmt: skip

    def test_notes_say_what_is_wrong(self):
        shown = text(example.take()())
        for note in (
            '! sda (0a4c7a40): temperature is 61 °C',
            '! nvme0n1 (77c1d2e3): weights do nothing: io.cost has no model',
            '! f3b37f32 is not watched: it has no device',
            '! 8f0c2a4e on 0a4c7a40: libvirt refuses',
        ):
            self.assertIn(note, shown)

    def test_notes_name_disks_that_are_hung(self):
        note = '! sda (0a4c7a40) is hung: it does not answer'
        self.assertNotIn(note, text(example.take()()))
        self.assertIn(note, text(example.take(hung=[example.HDD])()))

    def test_an_agent_that_is_stuck_is_pointed_out(self):
        state = example.take()()
        self.assertNotIn('ago', text(state, now=1002.0))
        self.assertIn('The last round is 60 s ago!', text(state, now=1060.0))

    def test_that_nothing_is_decided_is_said_unless_it_is_wanted(self):
        note = 'weights cannot be decided'
        self.assertNotIn(note, text(example.take()()))
        self.assertIn(note, text(example.take(decision=None)()))
        self.assertNotIn(note, text(example.take(decision=None, mode='off')()))

    def test_before_the_first_round(self):
        self.assertIn('not finished its first round', text(None))

    def test_nothing_of_what_is_shown_controls_the_terminal(self):
        evil = 'x.slice/\x1b[2J\nroot\x9b31m'
        shown = text(
            changed(
                {
                    'servers': [evil] * 4,
                    'domains': [evil] * 4,
                    'errors': [evil] * 4,
                },
                unwatched={evil: evil},
            )
        )
        self.assertEqual(
            '', ''.join(c for c in shown if not c.isprintable() and c != '\n')
        )

    @given(
        st.integers(1, 20),
        st.integers(1, 200),
        st.integers(1, 250),
        st.integers(1, 100),
    )
    def test_it_fits_the_terminal(self, disks, servers, width, height):
        lines = screen.lines(many(disks, servers), 1000.0, width, height)
        self.assertLessEqual(len(lines), height)
        for line in lines:
            self.assertLessEqual(len(line.text), width)

    def test_on_a_usual_terminal_no_figure_is_cut(self):
        lines = text(many(4, 40), width=79, height=24).splitlines()
        self.assertEqual(24, len(lines))
        (head,) = [line for line in lines if 'DEVICE' in line]
        self.assertTrue(head.endswith('WEIGHTS'))
        (head,) = [line for line in lines if 'SERVER' in line]
        self.assertTrue(head.endswith('NOTE'))
        self.assertRegex(lines[-1], r'^\(\d+ more servers\)$')

    def test_what_does_not_fit_is_counted(self):
        lines = text(many(20, 200), width=100, height=30).splitlines()
        hidden = [line for line in lines if line.startswith('(')]
        self.assertEqual(3, len(hidden))
        shown = sum(line.startswith('s0') for line in lines)
        self.assertIn(f'({200 - shown} more servers)', hidden)


class TopTest(base.BaseTestCase):
    def setUp(self):
        super().setUp()
        self.dir = self.useFixture(fixtures.TempDir()).path
        self.conf = cfg.ConfigOpts()
        # takes back what is overridden: groups of options share it
        overridden = self.useFixture(config_fixture.Config(self.conf))
        options.register_opts(self.conf)
        self.conf([], project='nova', default_config_files=[])
        overridden.config(group='diskplacer_agent', state_dir=self.dir)
        for name in ('stdout', 'stderr'):
            setattr(self, name, io.StringIO())
            self.useFixture(
                fixtures.MonkeyPatch(f'sys.{name}', getattr(self, name))
            )

    def serve(self, take):
        server = status_socket.serve(self.dir, take)
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)

    def top(self, *words):
        args = manage.make_parser().parse_args(['top', *words])
        return args.handler(self.conf, args)

    def test_once(self):
        self.serve(example.take())
        self.assertEqual(0, self.top('--once'))
        self.assertEqual(1, self.stdout.getvalue().count('BUDGET'))

    def test_json_has_all_that_the_agent_knows(self):
        self.serve(example.take())
        self.assertEqual(0, self.top('--once', '--format', 'json'))
        self.assertEqual(
            example.take()(), status.from_json(self.stdout.getvalue())
        )
        self.assertEqual(2, json.loads(self.stdout.getvalue())['version'])

    def test_no_agent(self):
        error = self.assertRaises(exception.ContentionError, self.top)
        self.assertIn('start diskplacer-agent', str(error))

    def test_an_interval_that_is_none(self):
        for value in ('0', '-1', 'soon', 'nan', '1e9'):
            self.assertRaises(SystemExit, self.top, '--interval', value)
            self.assertIn(value, self.stderr.getvalue())
