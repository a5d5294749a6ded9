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

"""openstack vdisk move check."""

import argparse
import typing

from nova_diskplacer import exit_status
from nova_diskplacer.client.osc import base
from nova_diskplacer.client.server_moves import facts
from nova_diskplacer.client.server_moves import move_views
from nova_diskplacer.client.server_moves import reading
from nova_diskplacer.client.server_moves import reasons

_Parser = argparse.ArgumentParser


class CheckMove(base.ShowOne):
    """Show whether a server can move to another host, and what is against it.

    The vdisks of its flavor are claimed anew on the other host. The exit
    status is 3 if it can move neither live nor cold.
    """

    def add_arguments(self, parser: _Parser) -> None:
        parser.add_argument('server', metavar='SERVER', help='name or ID')
        base.add_profile_dirs(parser)

    def take_action(
        self, args: argparse.Namespace
    ) -> tuple[tuple[str, ...], tuple[typing.Any, ...]]:
        reader = reading.Reader(self.connection, base.load_profiles(args))
        server = reader.find_server(args.server)
        room = reader.hosts_with_room(server)
        found = reasons.find(server, room)
        self.status = exit_status.of(
            all(reasons.against(found, kind) for kind in facts.KINDS)
        )
        names, values = move_views.check_fields(server, found, room)
        return names, tuple(map(base.column, values))
