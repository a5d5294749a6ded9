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

"""Tests of output to terminals whose encoding lacks characters."""

import argparse
import io
import types
import unittest

import ddt

from nova_diskplacer.client.osc import base
from nova_diskplacer.host import streams


def terminal(encoding):
    return io.TextIOWrapper(
        io.BytesIO(), encoding=encoding, write_through=True
    )


@ddt.ddt
class ReplaceCharactersTest(unittest.TestCase):
    @ddt.data('ascii', 'latin-1')
    def test_a_question_mark_for_what_the_encoding_lacks(self, encoding):
        stream = terminal(encoding)
        streams.replace_characters(stream)
        stream.write('4 → 6')
        self.assertEqual(b'4 ? 6', stream.buffer.getvalue())

    def test_the_commands_of_openstackclient(self):
        class Arrow(base.Command):
            def take_action(self, parsed_args):
                self.app.stdout.write('4 → 6')

        app = types.SimpleNamespace(stdout=terminal('latin-1'))
        command = Arrow(app, None)
        self.assertEqual(0, command.run(argparse.Namespace()))
        self.assertEqual(b'4 ? 6', app.stdout.buffer.getvalue())

    def test_a_stream_of_another_kind(self):
        streams.replace_characters(io.StringIO())
