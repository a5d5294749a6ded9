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

"""Makes the destinations of servers' moves to this host from cinder.conf."""

import shlex

import os_brick
from cinder import rpc
from cinder import utils
from oslo_config import cfg
from oslo_privsep import priv_context

from cinder_vdisk_mapper.backend import base
from cinder_vdisk_mapper.cinder_api import backend_sections
from cinder_vdisk_mapper.server_moves.destination import Destination
from cinder_vdisk_mapper.vdisks import locks
from cinder_vdisk_mapper.vdisks.layouts import Operations
from nova_diskplacer.placement import client as placement_client


def prepare(config: cfg.ConfigOpts) -> None:
    """Have this process send messages, and use os-brick, as cinder-volume."""
    priv_context.init(root_helper=shlex.split(utils.get_root_helper()))
    os_brick.setup(config)
    rpc.init(config)


def destinations(config: cfg.ConfigOpts) -> dict[str, Destination]:
    """Return the backends of this host, by their Cinder hosts.

    :raises DiskPlacerError: cinder.conf has none, or lacks options that they
        need.
    """
    locks.make_directory(config.state_path)
    sections = backend_sections.read(config)
    placement = placement_client.PlacementClient.from_conf(config)
    return {
        name: Destination(
            name,
            Operations(base.load(options), placement),
            options.vdisk_media,
        )
        for name, options in sections.items()
    }
