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


"""Directives ``client-checks`` and ``client-versions``.

They show the last result of ``tools/clients.sh``: its checks as a table, and
the versions of the programs.
"""

import json
import typing

from sphinx.application import Sphinx

import _results
import client_text
import fidelity
import fidelity_text

_RESULT = 'clients'


class Clients(fidelity.Generated):
    """Part of the result."""

    def lines(self, papers, results):
        if _RESULT not in results:
            return ['No result is committed yet.', '']
        path = _results.DIRECTORY / f'{_RESULT}.json'
        return self.result_lines(json.loads(path.read_text()))

    def used(self, results):
        return [_RESULT]

    def result_lines(self, content: client_text.Content) -> list[str]:
        raise NotImplementedError


class Checks(Clients):
    def result_lines(self, content):
        rows = client_text.check_rows(content)
        return fidelity_text.table([14, 34, 30, 22], rows)


class Versions(Clients):
    def result_lines(self, content):
        return [client_text.versions_text(content), '']


def setup(app: Sphinx) -> dict[str, typing.Any]:
    """Register the directives."""
    app.add_directive('client-checks', Checks)
    app.add_directive('client-versions', Versions)
    return {'parallel_read_safe': True}
