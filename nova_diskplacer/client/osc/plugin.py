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

"""Entry point of ``openstack.cli.extension``."""

import argparse
import typing

API_NAME = 'vdisk'
API_VERSION_OPTION = 'os_vdisk_api_version'
DEFAULT_API_VERSION = '1'
API_VERSIONS = {DEFAULT_API_VERSION: 'openstack.connection.Connection'}


def make_client(instance: typing.Any) -> typing.Any:
    """Return the connection that openstackclient has made."""
    return instance.sdk_connection


def build_option_parser(
    parser: argparse.ArgumentParser,
) -> argparse.ArgumentParser:
    """Return the parser of global options; there is none to add."""
    return parser
