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

"""Nova's API of flavors, answered by requests_mock.

The clients are real: openstacksdk and python-novaclient, with the OS_*
variables of an operator.
"""

import os
import re
import urllib.parse

import fixtures
from requests_mock.contrib import fixture as requests_mock_fixture

URL = 'http://nova.test/v2.1'
_PAGE = 2


class Flavor:
    """A flavor; without ``specs`` Nova does not show them."""

    def __init__(self, name, vcpus, ram, specs):
        self.id = f'id-{name}'
        self.name = name
        self.vcpus = vcpus
        self.ram = ram
        self.specs = specs
        self.calls = []

    def shown(self):
        fields = {
            'id': self.id,
            'name': self.name,
            'vcpus': self.vcpus,
            'ram': self.ram,
        }
        if self.specs is not None:
            fields['extra_specs'] = self.specs
        return fields

    def set(self, request, context):
        specs = request.json()['extra_specs']
        self.calls.append(('set', specs))
        self.specs.update(specs)
        return {'extra_specs': specs}

    def unset(self, request, context):
        key = urllib.parse.unquote(request.path_url.rpartition('/')[2])
        self.calls.append(('unset', key))
        if self.specs.pop(key, None) is None:
            context.status_code = 404
        return ''


class FakeNova(fixtures.Fixture):
    """A cloud with flavors, two to a page."""

    def __init__(self, *flavors):
        super().__init__()
        self.flavors = flavors

    def _setUp(self):
        for name in list(os.environ):
            if name.startswith('OS_'):
                self.useFixture(fixtures.EnvironmentVariable(name))
        for name, value in (
            ('OS_AUTH_TYPE', 'none'),
            ('OS_ENDPOINT', URL),
            ('OS_CLIENT_CONFIG_FILE', '/nonexistent'),
        ):
            self.useFixture(fixtures.EnvironmentVariable(name, value))
        self.requests = self.useFixture(requests_mock_fixture.Fixture())
        self.requests.get(
            URL,
            json={
                'version': {
                    'id': 'v2.1',
                    'status': 'CURRENT',
                    'version': '2.100',
                    'min_version': '2.1',
                    'links': [{'rel': 'self', 'href': URL}],
                }
            },
        )
        self.requests.get(f'{URL}/flavors/detail', json=self._list)
        for flavor in self.flavors:
            url = f'{URL}/flavors/{flavor.id}'
            self.requests.get(
                url, json=lambda *_, flavor=flavor: {'flavor': flavor.shown()}
            )
            self.requests.post(f'{url}/os-extra_specs', json=flavor.set)
            self.requests.delete(
                re.compile(re.escape(url) + '/os-extra_specs/.+'),
                text=flavor.unset,
            )

    def _list(self, request, context):
        # private flavors too
        assert request.qs['is_public'] == ['none'], request.qs
        (marker,) = request.qs.get('marker', [''])
        ids = [flavor.id for flavor in self.flavors]
        start = ids.index(marker) + 1 if marker else 0
        page = self.flavors[start : start + _PAGE]
        answer = {'flavors': [flavor.shown() for flavor in page]}
        if page[-1] is not self.flavors[-1]:
            query = f'is_public=None&marker={page[-1].id}'
            answer['flavors_links'] = [
                {'rel': 'next', 'href': f'{URL}/flavors/detail?{query}'}
            ]
        return answer
