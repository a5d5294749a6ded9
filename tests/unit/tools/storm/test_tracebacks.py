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


"""Exceptions of the project in the logs of services."""

import ddt
import testtools

from tools.storm import tracebacks

PREFIX = '2026-11-25 18:49:10.078 {pid} ERROR cinder.volume.manager [-] '
FRAME = '  File "/src/cinder_vdisk_mapper/driver.py", line 61, in attach'
OTHER = '  File "/usr/lib/cinder/manager.py", line 7, in attach'
CODE = '    work()'


def logged(*lines, pid=7):
    prefix = PREFIX.format(pid=pid)
    return ''.join(f'{prefix}{line}\n' for line in lines)


def chain(last, *frames):
    return ('Traceback (most recent call last):', *frames, CODE, last)


@ddt.ddt
class ParseTest(testtools.TestCase):
    def test_frames_and_name(self):
        text = logged('Failed:', *chain('KeyError: 3', OTHER, FRAME), 'Next')
        (found,) = tracebacks.parse(text)
        self.assertEqual('KeyError', found.name)
        self.assertEqual('KeyError: 3', found.text)
        self.assertEqual(('src/cinder_vdisk_mapper/driver.py:61',), found[2])

    def test_without_prefix(self):
        text = '\n'.join(chain('KeyError: 3', FRAME))
        self.assertEqual(1, len(tracebacks.parse(text)))

    def test_frames_of_others_only(self):
        text = logged(*chain('KeyError: 3', OTHER))
        self.assertEqual([], tracebacks.parse(text))

    @ddt.data(
        'The above exception was the direct cause of the following exception:',
        'During handling of the above exception, another exception occurred:',
    )
    def test_last_of_a_chain(self, joint):
        text = logged(
            *chain('KeyError: 3', FRAME),
            '',
            joint,
            '',
            *chain('cinder.exception.VolumeError: no', FRAME),
        )
        self.assertEqual(
            ['cinder.exception.VolumeError'],
            [one.name for one in tracebacks.parse(text)],
        )

    def test_two_after_each_other(self):
        text = logged(
            *chain('KeyError: 3', FRAME), 'Then', *chain('OSError', FRAME)
        )
        self.assertEqual(2, len(tracebacks.parse(text)))

    def test_processes_write_between_the_lines_of_others(self):
        first = chain('KeyError: 3', FRAME)
        second = chain('OSError: no', FRAME)
        text = ''.join(
            logged(one, pid=1) + logged(two, pid=2)
            for one, two in zip(first, second, strict=True)
        )
        self.assertEqual(
            {'KeyError', 'OSError'},
            {one.name for one in tracebacks.parse(text)},
        )


@ddt.ddt
class UnhandledTest(testtools.TestCase):
    @ddt.data(
        ('diskplacer-agent@one', 'OSError', True),
        ('cinder-volume@one', 'OSError', False),
        ('cinder-volume@one', 'cinder.exception.VolumeError', False),
        ('cinder-volume@one', 'TypeError', True),
        ('nova-scheduler', 'nova_diskplacer.exception.DiskError', True),
        (
            'nova-api',
            'cinder_vdisk_mapper.cinder_api.errors.BindingError',
            True,
        ),
    )
    @ddt.unpack
    def test_whose_it_is(self, log, name, unhandled):
        one = tracebacks.Traceback(name, name, ('file:1',))
        self.assertEqual(unhandled, tracebacks.is_unhandled(log, one))
