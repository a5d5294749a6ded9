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


"""Terraform's provider for OpenStack, built from the Go module proxy."""

import os
import pathlib
import shutil

from tools.clients import environment

NAME = 'terraform-provider-openstack'
VERSION = '3.4.0'
_MODULE = f'github.com/{NAME}/{NAME}/v3@v{VERSION}'
# Terraform takes this build of the provider as it is, without "init".
_SETTINGS = """
provider_installation {{
  dev_overrides {{
    "{name}/openstack" = "{directory}"
  }}
  direct {{}}
}}
"""


def make() -> str:
    """Have the provider, and return Terraform's settings that name it.

    :raises MissingError: it could not be built.
    """
    environment.program('go')
    path = environment.make(NAME, _MODULE, _build)
    return _SETTINGS.format(name=NAME, directory=path / 'bin')


def _build(path: pathlib.Path) -> None:
    """Build the provider, and leave nothing else."""
    build = path / 'build'
    build.mkdir()
    environment.run(
        'go',
        'install',
        '-ldflags=-s -w',
        _MODULE,
        GOBIN=str(path / 'bin'),
        GOPATH=str(build / 'go'),
        GOCACHE=str(build / 'cache'),
        GOTMPDIR=str(build),
        GOFLAGS=f'{os.environ.get("GOFLAGS", "")} -modcacherw'.strip(),
        CGO_ENABLED='0',
    )
    shutil.rmtree(build)
