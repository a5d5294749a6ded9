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

"""The vendor data of a server, from the extra specs of its flavor."""

from nova_diskplacer import flavor
from nova_diskplacer.guest import config
from nova_diskplacer.guest import vendor_data
from nova_diskplacer.profiles import catalogue
from nova_diskplacer.profiles import definitions


def for_flavor(
    extra_specs: definitions.Specs, profiles: catalogue.Catalogue
) -> str:
    """Return the vendor data of servers of a flavor, empty for none.

    It depends on nothing but the flavor: with a config drive Nova asks before
    the server has an address or volumes.

    :raises ValueError: the extra specs are invalid, or the profile unknown.
    :raises DiskPlacerError: the advice of the profile is invalid.
    """
    request = flavor.parse(extra_specs, profiles)
    if request is None or request.guest == flavor.NONE:
        return ''
    advice = (
        profiles[request.profile].guest
        if request.profile
        else definitions.Guest()
    )
    return vendor_data.vendor_data(
        config.settings(
            request.guest,
            count=request.vdisks,
            gib=request.vdisk_gb,
            advice=advice,
        )
    )
