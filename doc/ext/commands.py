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


"""Directive ``command-help``: what a command says of itself.

``.. command-help:: diskplacer-manage disk list`` becomes the output of
``diskplacer-manage disk list --help``.
"""

import contextlib
import io
import os
import sys
from importlib import metadata
from unittest import mock

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util import docutils


def text(words: list[str]) -> str:
    """Return the help of a console script's subcommand.

    :param words: the command line, without ``--help``.
    """
    (script,) = metadata.entry_points(group='console_scripts', name=words[0])
    output = io.StringIO()
    with (
        mock.patch.object(sys, 'argv', [*words, '--help']),
        mock.patch.dict(os.environ, {'COLUMNS': '79'}),
        contextlib.redirect_stdout(output),
        contextlib.suppress(SystemExit),
    ):
        script.load()()
    return output.getvalue()


class CommandHelp(docutils.SphinxDirective):
    required_arguments = 1
    final_argument_whitespace = True

    def run(self) -> list[nodes.Node]:
        output = text(self.arguments[0].split())
        if not output.startswith('usage: '):
            raise self.error(f'{self.arguments[0]} gives no help')
        return [nodes.literal_block(output, output, language='text')]


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the directive."""
    app.add_directive('command-help', CommandHelp)
    return {'parallel_read_safe': True}
