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

"""Reads flavors from Nova's API, and writes their extra specs."""

import collections.abc
import contextlib
import dataclasses
import typing

from openstack import exceptions as sdk_exc
from openstack import resource
from openstack.compute.v2 import flavor as sdk_flavor

from nova_diskplacer import exception
from nova_diskplacer.client import cloud
from nova_diskplacer.client import flavors
from nova_diskplacer.profiles import advice
from nova_diskplacer.profiles import catalogue
from nova_diskplacer.profiles import definitions

# The first microversion that validates extra specs.
_VALIDATES = '2.86'


class _Flavor(sdk_flavor.Flavor):
    """A flavor of the SDK; its extra specs are None if Nova hides them."""

    extra_specs = resource.Body('extra_specs', type=dict)


@dataclasses.dataclass(frozen=True)
class NamedFlavor:
    """A flavor of Nova's with its ID."""

    id: str
    flavor: advice.Flavor

    @property
    def name(self) -> str:
        """The flavor's name."""
        return self.flavor.name


def read(
    connection: cloud.Connection, names: collections.abc.Collection[str] = ()
) -> list[NamedFlavor]:
    """Return the flavors with these names or IDs, all without any.

    :raises DiskPlacerError: there is no such flavor, Nova does not show its
        extra specs, or does not answer.
    """
    with cloud.convert_errors('flavors'):
        # None: private flavors too, which only administrators can list
        listed = list(_Flavor.list(connection.compute, is_public='None'))
    return [
        NamedFlavor(
            nova_flavor.id,
            advice.Flavor(
                nova_flavor.name,
                nova_flavor.vcpus,
                nova_flavor.ram,
                _extra_specs(nova_flavor),
            ),
        )
        for nova_flavor in flavors.choose(
            listed,
            names,
            lambda nova_flavor: str(nova_flavor.name),
            lambda nova_flavor: str(nova_flavor.id),
        )
    ]


def _extra_specs(nova_flavor: _Flavor) -> dict[str, str]:
    if nova_flavor.extra_specs is None:
        raise exception.DiskPlacerError(
            'Nova does not show the extra specs of flavor '
            f'{nova_flavor.name}: the account needs the right to see them'
        )
    return dict(nova_flavor.extra_specs)


def apply_profile(
    chosen: collections.abc.Iterable[NamedFlavor],
    profile: definitions.Profile,
    profiles: catalogue.Catalogue,
    volume_type: str | None,
    write: collections.abc.Callable[[str, flavors.Change], None] | None,
) -> collections.abc.Iterator[str]:
    """Give flavors a profile, and yield the lines to print.

    :param volume_type: that of the vdisks of a flavor and profile without one.
    :param write: changes the flavor with an ID; None to change nothing.
    :raises DiskPlacerError: ``write`` raises it.
    """
    ids = {named.name: named.id for named in chosen}
    return flavors.apply(
        [
            flavors.change(named.flavor, profile, profiles, volume_type)
            for named in chosen
        ],
        write and (lambda change: write(ids[change.flavor.name], change)),
    )


def write_specs(
    connection: cloud.Connection, id_: str, change: flavors.Change
) -> None:
    """Unset and set extra specs of a flavor.

    :raises DiskPlacerError: Nova does not answer or refuses.
    """
    url = f'/flavors/{id_}/os-extra_specs'

    def unset(key: str) -> None:
        # by another operator, or a request whose answer was lost
        with contextlib.suppress(sdk_exc.NotFoundException):
            _ask(connection, 'delete', f'{url}/{key}')

    def set_(specs: dict[str, str]) -> None:
        _ask(connection, 'post', url, json={'extra_specs': specs})

    with cloud.convert_errors(f'flavor {change.flavor.name}'):
        change.write(unset, set_)


def _ask(
    connection: cloud.Connection, method: str, url: str, **body: typing.Any
) -> None:
    """Send a request to Nova with the microversion that validates specs."""
    response = getattr(connection.compute, method)(
        url, microversion=_VALIDATES, **body
    )
    sdk_exc.raise_from_response(response)
