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

"""Options of the filter in nova-api."""

from oslo_config import cfg

GROUP = cfg.OptGroup(
    'diskplacer_api',
    title='Blank volumes in nova-api',
    help="""
The filter of ``api-paste.ini`` that adds the vdisks of a flavor to requests
for servers. nova-api reads the group; ``volume_type`` is also read by
nova-scheduler, by cinder-volume from ``cinder.conf``, and by
``diskplacer-manage profile apply``.
""",
)

OPTS = [
    cfg.StrOpt(
        'volume_type',
        help="""
Name of the volume type of vdisks, for flavors without
``diskplacer:volume_type``.

If set, the filter gives this type to the volumes that it adds, and only
volumes of this type are vdisks. Set it in ``cinder.conf`` as well where
several volume types use the backends of vdisks. Requests before microversion
2.67 cannot name a type: they are refused unless it is the project's default
type.

If unset, volumes that the filter adds name no type and get the project's
default type, and a volume of any type may be a vdisk. Leave it unset only
where the default type of all projects is that of vdisks.
""",
    ),
]
