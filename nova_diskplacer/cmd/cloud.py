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

"""The operator's cloud, of clouds.yaml or OS_* variables."""

import argparse
import collections.abc
import contextlib
import os
import typing

import openstack
from keystoneauth1 import exceptions as ks_exc
from novaclient import client
from novaclient import exceptions as nova_exc
from openstack import exceptions as sdk_exc

from nova_diskplacer import exception

# The first microversion that validates extra specs.
_MICROVERSION = '2.86'

# Seconds that a request may take, unless clouds.yaml sets it.
_TIMEOUT = 60.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the option that names the cloud."""
    parser.add_argument(
        '--os-cloud',
        metavar='CLOUD',
        help='cloud in clouds.yaml (default: $OS_CLOUD, or the cloud that '
        'the OS_* variables describe)',
    )


def connection(args: argparse.Namespace) -> typing.Any:
    """Return an ``openstack.connection.Connection``, without a request to it.

    :raises DiskPlacerError: clouds.yaml or the variables describe no cloud.
    """
    with convert_errors(_where(args)):
        opened = openstack.connect(cloud=args.os_cloud)
        limit_time(opened.session)
        return opened


def limit_time(session: typing.Any) -> None:
    """Give a session a timeout for requests, if clouds.yaml sets none."""
    session.timeout = session.timeout or _TIMEOUT


def nova_client(connection_: typing.Any) -> typing.Any:
    """Return a client of Nova's API, without a request to it.

    :param connection_: that of :func:`connection`.
    """
    region = connection_.config
    return client.Client(
        _MICROVERSION,
        session=connection_.session,
        region_name=region.get_region_name('compute'),
        endpoint_type=region.get_interface('compute') or 'public',
        endpoint_override=region.get_endpoint('compute'),
    )


def _where(args: argparse.Namespace) -> str:
    named = args.os_cloud or os.environ.get('OS_CLOUD')
    return f'cloud {named}' if named else 'clouds.yaml or OS_* variables'


@contextlib.contextmanager
def convert_errors(subject: str) -> collections.abc.Iterator[None]:
    """Convert errors of the client libraries to ``DiskPlacerError``.

    :param subject: the subject of the request, for the message.
    """
    try:
        yield
    except (
        ks_exc.ClientException,
        nova_exc.ClientException,
        sdk_exc.SDKException,
    ) as error:
        raise exception.DiskPlacerError(f'{subject}: {error}') from error
