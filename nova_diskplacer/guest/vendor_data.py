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

"""Generates vendor data, by which a server uses its vdisks without user data.

cloud-init merges the cloud-config of vendor data below that of user data: a
list in user data, such as ``runcmd``, replaces the list in vendor data. So
this vendor data contains no cloud-config, but two parts that run whatever the
user data contains:

* a boothook, on every boot before most services start. It writes the script
  to ``config.PATH`` and runs it, as ``bootcmd`` of the user data does;
* a shell script at the end of the first boot, when the packages of the user
  data are installed, but before its ``runcmd``.
"""

import collections.abc
import typing
from email.mime import multipart
from email.mime import text

from nova_diskplacer.guest import config

# No line of the script is this word.
_END = 'END_OF_DISKPLACER_GUEST'

_BOOTHOOK = """#cloud-boothook
#!/bin/sh
set -e
mkdir -p "$(dirname {path})"
cat > {path}.new << '{end}'
{script}{end}
chmod 755 {path}.new
mv {path}.new {path}
set -- {path} early
{launcher}
"""

_FINAL = """#!/bin/sh
set -- {path}
{launcher}
"""


def vendor_data(values: collections.abc.Mapping[str, typing.Any]) -> str:
    """Return vendor data that runs the script, as a MIME message.

    :param values: the result of ``config.settings``.
    """
    places = {'path': config.PATH, 'launcher': config.LAUNCHER}
    early = _BOOTHOOK.format(end=_END, script=config.script(values), **places)
    message = multipart.MIMEMultipart()
    for content, subtype in (
        (early, 'cloud-boothook'),
        (_FINAL.format(**places), 'x-shellscript'),
    ):
        part = text.MIMEText(content, subtype, 'us-ascii')
        # cloud-init saves a part under its name, and numbers nameless ones
        part.add_header(
            'Content-Disposition', 'attachment', filename='diskplacer-guest'
        )
        message.attach(part)
    # the default changes lines that begin with "From "
    return message.as_string(policy=message.policy.clone(mangle_from_=False))
