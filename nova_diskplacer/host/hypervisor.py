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

"""The name of this host as a hypervisor, which its compute node has too."""

import socket

from oslo_utils import netutils


def hostname() -> str:
    """Return the hypervisor hostname by the rules of libvirt.

    As libvirt's virGetHostname, it is the fully qualified name, or the short
    name if the resolver knows the host only as localhost.
    """
    name = socket.gethostname()
    if '.' in name or name.startswith('localhost'):
        return name
    try:
        addresses = socket.getaddrinfo(name, None, flags=socket.AI_CANONNAME)
    except OSError:
        return name
    canonical = addresses[0][3]
    if canonical.startswith('localhost') or netutils.is_valid_ip(canonical):
        return name
    return canonical or name
