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

import numpy
from hypothesis import given
from hypothesis import strategies as st
from oslotest import base
from rich import console

from nova_diskplacer.cmd import top_view
from tests.unit.nova_diskplacer.monitor import example


def text(state, now=1000.0, width=1000, height=1000):
    """Return what is shown on a terminal that the view has to fit."""
    stream = io.StringIO()
    terminal = console.Console(
        file=stream, width=width, height=height, highlight=False
    )
    terminal.print(top_view.view(state, now, width, height))
    return stream.getvalue()


def changed(pairs=(), **changes):
    """Return the example with other columns of pairs, and fields."""
    state = example.status_provider()()
    columns = dataclasses.replace(state.pairs, **dict(pairs))
    return dataclasses.replace(state, pairs=columns, **changes)


def many(disks, servers):
    """Return the status of many servers on many disks."""
    names = [f'd{n:07d}-0000' for n in range(disks)]
    pairs = tuple(
        sorted((f's{n:07d}-0000', names[n % disks]) for n in range(servers))
    )
    disks = {
        name: example.disk_state(
            name,
            f'sd{n}',
            warnings={'queue': 'it is slow', 'performance': 'it is slow'},
        )
        for n, name in enumerate(names)
    }
    return example.status_provider(
        example.make_sample(pairs, range(servers), 1.0, disks=disks),
        decision=None,
        fair_shares=numpy.zeros(servers),
    )()


class TopViewTest(base.BaseTestCase):
    def test_disks_and_servers_with_the_busiest_first(self):
        lines = text(example.status_provider()()).splitlines()
        (disks,) = [n for n, line in enumerate(lines) if 'DEVICE' in line]
        self.assertIn(example.HDD, lines[disks + 1])
        self.assertIn(example.NVME, lines[disks + 2])
        (servers,) = [n for n, line in enumerate(lines) if 'CLASS' in line]
        self.assertEqual(
            [example.LONG, example.SMALL, example.SMALL, example.BACKUP],
            [line.split()[0] for line in lines[servers + 1 : servers + 5]],
        )

    def test_elastic_vdisks(self):
        lines = text(example.status_provider()()).splitlines()
        header, row = lines[-2:]
        self.assertEqual('VDISK', header.split()[0])
        for part in (example.VOLUME, '1-4', '90%', '→2', 'pressure of 90%'):
            self.assertIn(part, row)
        for none in (None, example.elastic_status(vdisks=())):
            self.assertNotIn(
                'VDISK', text(example.status_provider(elastic=none)())
            )

    def test_what_is_told_of_a_disk(self):
        (row,) = [
            line.split()
            for line in text(example.status_provider()()).splitlines()
            if line.startswith(example.HDD)
        ]
        self.assertEqual(
            [
                example.HDD, 'sda', '101.0', '50.5', '95%', '75%', '12.5',
                '8.0', '50%', 'standby', 'bfq', '-18%',
            ],
            row,
        )  # fmt: skip

    def test_idle_disks(self):
        for idle, shown in ((True, 'idle'), (False, '-')):
            states = {example.HDD: example.disk_state(idle=idle)}
            provider = example.status_provider(
                example.make_sample(disks=states), standby={}
            )
            (row,) = [
                line.split()
                for line in text(provider()).splitlines()
                if line.startswith(example.HDD)
            ]
            self.assertEqual(shown, row[9])

    def test_what_is_told_of_a_server(self):
        row, *_ = [
            line.split()
            for line in text(example.status_provider()()).splitlines()
            if line.startswith(example.LONG)
        ]
        self.assertEqual(
            [
                example.LONG, 'alpha', 'instance-00000001', 'sda', '100.0',
                '50.0', '1500', '-', '297%', '1', '5', 'used', 'much',
            ],
            row,
        )  # fmt: skip

    def test_notes_say_what_is_wrong(self):
        shown = text(example.status_provider()())
        for note in (
            '! sda (0a4c7a40): temperature is 61 °C',
            '! nvme0n1 (77c1d2e3): weights do nothing: io.cost has no model',
            '! f3b37f32 is not watched: it has no device',
            '! 8f0c2a4e on 0a4c7a40: libvirt refuses',
        ):
            self.assertIn(note, shown)

    def test_notes_name_disks_that_are_hung(self):
        note = '! sda (0a4c7a40) is hung: it does not answer'
        self.assertNotIn(note, text(example.status_provider()()))
        self.assertIn(
            note,
            text(
                example.status_provider(
                    example.make_sample(hung=[example.HDD])
                )()
            ),
        )

    def test_an_agent_that_is_stuck_is_pointed_out(self):
        state = example.status_provider()()
        self.assertNotIn('ago', text(state, now=1002.0))
        self.assertIn('The last round is 60 s ago!', text(state, now=1060.0))

    def test_that_nothing_is_decided_is_said_unless_it_is_wanted(self):
        note = 'weights cannot be decided'
        self.assertNotIn(note, text(example.status_provider()()))
        self.assertIn(note, text(example.status_provider(decision=None)()))
        self.assertNotIn(
            note, text(example.status_provider(decision=None, mode='off')())
        )

    def test_a_dry_run_shows_what_would_change(self):
        decision = dataclasses.replace(
            example.make_decision(),
            weights={
                (example.LONG, example.HDD): 5,
                (example.SMALL, example.HDD): 100,
            },
        )
        shown = text(
            example.status_provider(decision=decision, mode='dry_run')()
        )
        self.assertIn('weights dry_run, 1 would change  ', shown)
        self.assertIn(' 100→5 ', shown)
        self.assertIn(' 100 ', shown)
        self.assertNotIn('→100', shown)
        self.assertNotIn('would', text(example.status_provider()()))

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
        view = text(many(disks, servers), 1000.0, width, height)
        for line in view.splitlines():
            self.assertLessEqual(len(line), width)

    def test_on_a_usual_terminal_no_figure_is_cut(self):
        lines = text(many(4, 40), width=79, height=24).splitlines()
        (head,) = [line for line in lines[:24] if 'DEVICE' in line]
        self.assertTrue(head.rstrip().endswith('WEIGHTS'))
        (head,) = [line for line in lines[:24] if 'SERVER' in line]
        self.assertTrue(head.rstrip().endswith('WHY'))
        self.assertNotIn('…', ''.join(lines[:24]))

    def test_disks_leave_room_for_servers(self):
        lines = text(many(20, 200), width=100, height=30).splitlines()
        self.assertIn('disks 20, ', lines[0])
        (head,) = [n for n, line in enumerate(lines) if 'SERVER' in line]
        self.assertLess(head, 22)
