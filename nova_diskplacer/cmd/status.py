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

"""diskplacer-status: checks a deployment before and after an upgrade."""

import collections.abc
import functools
import sys

from oslo_config import cfg
from oslo_upgradecheck import upgradecheck

from nova_diskplacer import conf as options
from nova_diskplacer import exception
from nova_diskplacer.cmd import common
from nova_diskplacer.cmd import outcome
from nova_diskplacer.cmd import upgrade_checks as checks
from nova_diskplacer.cmd import upgrade_facts
from nova_diskplacer.cmd import upgrade_quotas
from nova_diskplacer.conf import files

# Exit status of oslo.upgradecheck for an error of the command itself.
_ERROR = 255

_NO_CLOUD = (
    'Not checked: neither OS_CLOUD nor OS_AUTH_URL is set. Load the openrc '
    'file of an administrator.'
)


def _run(
    needs_cloud: bool,
    check: collections.abc.Callable[['Checks'], checks.Result],
    commands: 'Checks',
) -> checks.Result:
    """Run a check; facts that cannot be read are a failure."""
    if needs_cloud and not commands.reader.has_cloud:
        return checks.success(_NO_CLOUD)
    try:
        return check(commands)
    except (exception.DiskPlacerError, cfg.Error) as error:
        return checks.failure(str(error))


class Checks(upgradecheck.UpgradeCommands):
    """The checks, each of which reads facts and has a function judge them.

    :param reader: reads the facts.
    """

    def __init__(self, reader: upgrade_facts.Reader) -> None:
        self.reader = reader

    def nova_filters(self) -> checks.Result:
        options = self.reader.nova().filter_scheduler
        return checks.nova_filters(
            options.enabled_filters, options.available_filters
        )

    def cinder_filters(self) -> checks.Result:
        options = self.reader.cinder()
        return checks.cinder_filters(options.scheduler_default_filters)

    def placement(self) -> checks.Result:
        self.reader.make_names()
        return checks.success()

    def agents(self) -> checks.Result:
        answers, silent = self.reader.agents
        return checks.agents(answers, silent, self.reader.software.release)

    def schedulers(self) -> checks.Result:
        release = self.reader.software.release
        return checks.schedulers(self.reader.schedulers, release)

    def profiles(self) -> checks.Result:
        answers, _ = self.reader.agents
        own = self.reader.software
        return checks.profiles(
            [*answers, *self.reader.schedulers], own.release, own.profiles
        )

    def hosts(self) -> checks.Result:
        answers, _ = self.reader.agents
        names = {software.host for software in answers}
        return checks.hosts(names, self.reader.cinder_hosts())

    def moves(self) -> checks.Result:
        enabled = self.reader.nova().diskplacer_scheduler.moves
        return checks.moves(enabled, self.reader.hosts_without_moves())

    def weights(self) -> checks.Result:
        hosts = self.reader.weighing_hosts
        if self.reader.has_cloud:
            return checks.weights(hosts, self.reader.flavors())
        result = checks.weights(hosts, ())
        if hosts and result.code is checks.Code.SUCCESS:
            return checks.success(f'Flavors: {_NO_CLOUD}')
        return result

    def quotas(self) -> checks.Result:
        return upgrade_quotas.check(
            self.reader.quotas(), self.reader.flavors()
        )

    def volume_types(self) -> checks.Result:
        types, default = self.reader.volume_types()
        return checks.volume_types(types, default, self.reader.backends())

    def media(self) -> checks.Result:
        return checks.media(
            self.reader.flavors(),
            *self.reader.volume_types(),
            self.reader.pools(),
        )

    _upgrade_checks = tuple(
        (name, functools.partial(_run, needs_cloud, check))
        for name, needs_cloud, check in (
            ('Filters of nova-scheduler', False, nova_filters),
            ('Filters of cinder-scheduler', False, cinder_filters),
            ('Rights in Placement', False, placement),
            ('Agents', False, agents),
            ('Schedulers', False, schedulers),
            ('Profiles of workloads', False, profiles),
            ('Host names of Nova and Cinder', True, hosts),
            ('Servers that move', True, moves),
            ('I/O weights', False, weights),
            ('Volume quotas', True, quotas),
            ('Volume types', True, volume_types),
            ('Media of flavors', True, media),
        )
    )


@outcome.command('diskplacer-status', _ERROR)
def main(argv: list[str] | None = None) -> int:
    """Run the command.

    :returns: 0 if all is well, 1 with warnings, 2 with failures, 255 if the
        configuration cannot be read.
    """
    conf = options.CONF
    common.register_options(conf)
    conf.register_cli_opt(upgrade_facts.CINDER_FILES)
    commands = Checks(upgrade_facts.Reader(conf))
    words = sys.argv[1:] if argv is None else argv
    with files.read_errors(_config_files(words)):
        code: int = upgradecheck.main(conf, 'nova', commands, words)
    return code


def _config_files(words: list[str]) -> list[str]:
    """Return the configuration files that may be read, for messages."""
    named = [
        word.rpartition('=')[2] for word in words if '.' in word or '/' in word
    ]
    return named or cfg.find_config_files(project='nova')
