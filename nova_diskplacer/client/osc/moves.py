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

"""openstack vdisk move check, host empty and host lost."""

import argparse
import typing

from nova_diskplacer import arguments
from nova_diskplacer import exception
from nova_diskplacer import exit_status
from nova_diskplacer import terminal
from nova_diskplacer.client import cloud
from nova_diskplacer.client import facts as facts_
from nova_diskplacer.client import views
from nova_diskplacer.client.osc import base
from nova_diskplacer.client.server_moves import emptying
from nova_diskplacer.client.server_moves import facts
from nova_diskplacer.client.server_moves import move_views
from nova_diskplacer.client.server_moves import nova as nova_
from nova_diskplacer.client.server_moves import reading
from nova_diskplacer.client.server_moves import reasons
from nova_diskplacer.client.server_moves import returning

_Parser = argparse.ArgumentParser

# Seconds.
_TIMEOUT = 3600


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
        obstacles = reasons.find(server, room)
        self.status = exit_status.of(
            all(reasons.against(obstacles, kind) for kind in facts.KINDS)
        )
        names, values = move_views.check_fields(server, obstacles, room)
        return names, tuple(map(base.column, values))


class _HostCommand(base.Lister):
    """A command for the servers of a host."""

    def add_arguments(self, parser: _Parser) -> None:
        parser.add_argument(
            'host',
            metavar='HOST',
            help='host of nova-compute, with or without its domain',
        )
        parser.add_argument(
            '--timeout',
            type=arguments.number(int, 1),
            default=_TIMEOUT,
            metavar='SECONDS',
            help='end after this time; Nova goes on with what is under way '
            '(default: %(default)s)',
        )
        base.add_profile_dirs(parser)

    def _add_parallel(self, parser: _Parser, default: int, verb: str) -> None:
        parser.add_argument(
            '--parallel',
            type=arguments.number(int, 1),
            default=default,
            metavar='N',
            help=f'servers that {verb} at a time (default: %(default)s)',
        )

    def _tell(self, line: str) -> None:
        self.app.stderr.write(line + '\n')
        self.app.stderr.flush()


class LostHost(_HostCommand):
    """Bring servers of a host that is lost for good back with blank vdisks.

    The host must be fenced and forced down in Nova, and its cinder-volume be
    down. Servers of flavors with diskplacer:on_host_loss=blank, whose data
    "diskplacer-manage host give-up" has given up, are evacuated; all others
    stay, with the reason. Changes nothing without --yes. May be repeated. The
    exit status is 3 if servers stay on the host.
    """

    def add_arguments(self, parser: _Parser) -> None:
        super().add_arguments(parser)
        parser.add_argument(
            '--yes',
            action='store_true',
            help='do it; else show what would be done',
        )
        self._add_parallel(parser, 4, 'are evacuated')

    def take_action(self, args: argparse.Namespace) -> views.Table:
        nova = nova_.Nova(self.connection, args.host)
        nova.check_is_lost()
        for service in cloud.read_volume_services(self.connection):
            if service['state'] == 'up' and facts_.is_host(
                service['host'].partition('@')[0], nova.host
            ):
                raise exception.DiskPlacerError(
                    f'cinder-volume of {service["host"]} is up: its host is '
                    'not lost'
                )
        run = returning.Returning(
            nova,
            reading.Reader(self.connection, base.load_profiles(args)),
            args.parallel,
            self._tell,
        )
        if args.yes:
            # or a connection that breaks would keep off the next run
            terminal.exit_on_signals()
            with nova.held(self._tell):
                outcomes = run.run(args.timeout)
        else:
            outcomes = run.plan()
        self.status = exit_status.of(
            [one for one in outcomes if not one.is_gone]
        )
        return move_views.returns_table(outcomes)


class EmptyHost(_HostCommand):
    """Move all servers away from a host, and their vdisks with them.

    Disables nova-compute of the host, and moves servers that run live and
    those that are off cold. The scheduler chooses where. A cold migration is
    confirmed, but none that somebody else has begun. Servers that cannot move
    stay, with the reason. After Ctrl-C Nova goes on with what is under way,
    and the same command with the rest. The exit status is 3 unless neither a
    server nor a vdisk is left.
    """

    def add_arguments(self, parser: _Parser) -> None:
        super().add_arguments(parser)
        kind = parser.add_mutually_exclusive_group()
        kind.add_argument(
            '--live',
            dest='kind',
            action='store_const',
            const=facts.LIVE,
            help='move only the servers that run',
        )
        kind.add_argument(
            '--cold',
            dest='kind',
            action='store_const',
            const=facts.COLD,
            help='move all servers cold: those that run are off meanwhile',
        )
        self._add_parallel(parser, 1, 'move')
        parser.add_argument(
            '--wait',
            action='store_true',
            help='wait for servers that Nova is at work on, and until the '
            'data of all that have moved has left the host',
        )
        parser.add_argument(
            '--plan',
            action='store_true',
            help='show what would be done, and change nothing',
        )

    def take_action(self, args: argparse.Namespace) -> views.Table:
        nova = nova_.Nova(self.connection, args.host)
        nova.check_is_up()
        run = emptying.Emptying(
            nova,
            reading.Reader(self.connection, base.load_profiles(args)),
            args.kind,
            args.parallel,
            self._tell,
        )
        if args.plan:
            planned, left = run.plan()
            self.status = exit_status.of(
                left or any(entry.reasons for entry in planned)
            )
            return move_views.plan_table(planned, left)
        self._tell(f'nova-compute of {nova.host} {nova.disable()}')
        try:
            results = run.run(args.wait, args.timeout)
        except (KeyboardInterrupt, exception.DiskPlacerError):
            for line in run.under_way():
                self._tell(line)
            self._tell('Interrupted. The same command goes on.')
            raise
        finally:
            self._tell(
                f'nova-compute of {nova.host} stays disabled. To enable it: '
                + nova.enable_command
            )
        self.status = exit_status.of(
            [result for result in results if not result.is_gone]
        )
        return move_views.results_table(results)
