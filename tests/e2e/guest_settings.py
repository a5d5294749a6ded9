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

"""What ``diskplacer-manage guest-config`` prints for guests of the cloud."""

import ast
import xml.etree.ElementTree

from nova_diskplacer.guest import config as guest_config
from tools.minicloud import checks


def settings(cloud, *arguments):
    """Return the settings in the script that the command prints."""
    printed = cloud.manage(
        cloud.libvirt_host, 'guest-config', '--format=script', *arguments
    )
    call = ast.parse(printed).body[-1].value.args[0]
    return ast.literal_eval(call.args[0])


def serials(cloud, server):
    """Return what a guest sees of the ids of its volumes, sorted."""
    text = checks.domain_xml(cloud, server)
    return sorted(
        disk.findtext('serial')[: guest_config.SERIAL_LENGTH]
        for disk in xml.etree.ElementTree.fromstring(text).iter('disk')
        if disk.findtext('serial')
    )
