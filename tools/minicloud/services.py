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


"""The OpenStack services, and the database schemas they need."""

import functools
import pathlib
import shlex
import sys

import kombu
import requests

from tools.minicloud import backing
from tools.minicloud import config
from tools.minicloud import hypervisor
from tools.minicloud import ini
from tools.minicloud import process
from tools.minicloud.process import Process
from tools.minicloud.state import Host
from tools.minicloud.state import State

_WITH_ISCSI = [sys.executable, '-m', 'tools.minicloud.with_iscsi']
_IMPORT_TOOLS = {'PYTHONPATH': str(pathlib.Path(__file__).parents[2])}


def api(
    state: State, name: str, module: str, *args: str, **env: str
) -> Process:
    """Return an API service in uwsgi: one process, four threads."""
    port = state.ports[name]
    return Process(
        name if name in ('keystone', 'placement') else f'{name}-api',
        [
            f'{ini.BIN}/uwsgi',
            f'--http-socket=127.0.0.1:{port}',
            f'--module={module}:application',
            f'--home={sys.prefix}',
            '--buffer-size=65535',
            # requests, and images in large parts, may come slowly
            '--socket-timeout=120',
            '--chunked-input-timeout=120',
            f'--chunked-input-limit={16 * 2**20}',
            '--add-header=Connection: close',
            '--enable-threads',
            '--lazy-apps',
            '--processes=1',
            '--threads=4',
            '--die-on-term',
            '--need-app',
            '--disable-logging',
            *args,
        ],
        state.run,
        state.logs,
        env=env,
        ready=functools.partial(_answers, state.url(name)),
    )


def everything(state: State) -> dict[str, Process]:
    """Return all programs of the cloud, by name."""
    programs = [
        backing.epmd(state),
        backing.mariadb(state),
        backing.rabbitmq(state),
        backing.memcached(state),
        neutron(state),
        vendordata(state),
        *heat(state),
    ]
    found = {program.name: program for program in programs}
    found |= apis(state) | controllers(state) | hypervisors(state)
    for host in state.hosts:
        found |= host_services(state, host)
    return found


def hypervisors(state: State) -> dict[str, Process]:
    """Return what hosts with real guests need first, by name."""
    return {
        program.name: program
        for host in hypervisor.hosts(state)
        for program in (
            hypervisor.namespaces(state, host),
            hypervisor.libvirtd(state, host),
        )
    }


def apis(state: State) -> dict[str, Process]:
    """Return the API services, by name."""
    conf = str(state.conf)
    found = [
        api(
            state,
            'keystone',
            'keystone.wsgi.api',
            OS_KEYSTONE_CONFIG_FILES=f'{conf}/keystone.conf',
        ),
        api(
            state,
            'placement',
            'placement.wsgi.api',
            OS_PLACEMENT_CONFIG_DIR=conf,
        ),
        api(state, 'glance', 'glance.wsgi.api', OS_GLANCE_CONFIG_DIR=conf),
        api(
            state,
            'nova',
            'nova.wsgi.osapi_compute',
            OS_NOVA_CONFIG_DIR=conf,
            OS_NOVA_CONFIG_FILES=f'{config.PASTE};nova.conf',
        ),
        api(
            state,
            'cinder',
            'cinder.wsgi.api',
            f'--pyargv=--config-file {conf}/cinder.conf',
        ),
    ]
    return {service.name: service for service in found}


def neutron(state: State) -> Process:
    port = state.ports['neutron']
    network = ['network'] if state.network else []
    return Process(
        'neutron',
        [
            *(sys.executable, '-m', 'tools.minicloud.neutron'),
            *(str(port), *network),
        ],
        state.run,
        state.logs,
        env=dict(_IMPORT_TOOLS),
        ready=functools.partial(process.port_open, port),
    )


def vendordata(state: State) -> Process:
    port = state.ports['vendordata']
    found = _program(
        state,
        'diskplacer-vendordata',
        'diskplacer-vendordata',
        f'{state.conf}/vendordata.conf',
    )
    found.ready = functools.partial(process.port_open, port)
    return found


def heat(state: State) -> list[Process]:
    """Return Heat's services, which only some users of a cloud need."""
    conf = f'{state.conf}/heat.conf'
    engine = _program(state, 'heat-engine', 'heat-engine', conf)
    engine.ready = functools.partial(_has_consumer, state, 'engine')
    return [
        api(state, 'heat', 'heat.wsgi.api', f'--pyargv=--config-file {conf}'),
        engine,
    ]


def controllers(state: State) -> dict[str, Process]:
    """Return conductor and schedulers, by name."""
    return {
        name: _program(state, name, name, f'{state.conf}/{conf}')
        for name, conf in (
            ('nova-conductor', 'nova.conf'),
            ('nova-scheduler', 'nova.conf'),
            ('cinder-scheduler', 'cinder.conf'),
        )
    }


def host_services(state: State, host: Host) -> dict[str, Process]:
    """Return what runs on a compute host, by name (with ``@host``)."""
    directory = state.host_dir(host.name)
    programs = {
        'nova-compute': 'nova.conf',
        'cinder-volume': 'cinder.conf',
        'diskplacer-agent': 'diskplacer.conf',
    }
    if host.backups:
        programs['cinder-backup'] = 'cinder.conf'
    found = {
        f'{name}@{host.name}': _program(
            state, f'{name}@{host.name}', name, f'{directory}/{conf}'
        )
        for name, conf in programs.items()
    }
    if host.moves:
        name = f'diskplacer-settle@{host.name}'
        found[name] = settler(state, host, name)
        if not host.lvm:
            volumes = found[f'cinder-volume@{host.name}']
            volumes.argv[:1] = _WITH_ISCSI + ['cinder-volume']
            volumes.env |= _IMPORT_TOOLS
    if host.lvm:
        name = f'diskplacer-elastic@{host.name}'
        argv = _manage_vdisks(state, host, 'elastic', 'run')
        found[name] = Process(name, argv, state.run, state.logs)
    if host.guests == 'libvirt':
        compute = found[f'nova-compute@{host.name}']
        compute.argv = hypervisor.within(state, host.name, compute.argv)
        compute.env |= hypervisor.remote(state)
    return found


def settler(state: State, host: Host, name: str) -> Process:
    """Return what has the data of servers follow them to a host."""
    argv = _manage_vdisks(
        state,
        host,
        'settle',
        f'--libvirt-uri={hypervisor.uri(state, host.name)}',
    )
    if not host.lvm:
        argv[:1] = _WITH_ISCSI + ['diskplacer-manage']
    return Process(
        name,
        argv,
        state.run,
        state.logs,
        env=dict(_IMPORT_TOOLS),
    )


def _manage_vdisks(state: State, host: Host, *words: str) -> list[str]:
    """Return a command for a host's vdisks, which Cinder has volumes of."""
    directory = state.host_dir(host.name)
    return [
        f'{ini.BIN}/diskplacer-manage',
        f'--config-file={directory}/diskplacer.conf',
        *words,
        f'--cinder-config-file={directory}/cinder.conf',
    ]


def make_schemas(state: State) -> None:
    """Make the schemas of all databases, the same for each cloud.

    :raises ProcessError: one could not be made; says what was printed.
    """
    # Nova fills in what its configuration says
    place = '{scheme}://{username}:{password}@{hostname}:{port}'
    chains = {
        'nova-schema': [
            _manage(state, 'nova', 'api_db', 'sync'),
            _manage(
                state,
                'nova',
                'cell_v2',
                'map_cell0',
                f'--database_connection={place}/nova_cell0?{{query}}',
            ),
            _manage(
                state,
                'nova',
                'cell_v2',
                'create_cell',
                '--name=cell1',
                f'--database_connection={place}/{{path}}?{{query}}',
                f'--transport-url={place}/',
            ),
            _manage(state, 'nova', 'db', 'sync'),
        ],
        'keystone-glance-schema': [
            _manage(state, 'keystone', 'db_sync'),
            _manage(state, 'glance', 'db_sync'),
        ],
        'other-schemas': [
            _manage(state, 'cinder', 'db', 'sync'),
            _manage(state, 'placement', 'db', 'sync'),
            _manage(state, 'heat', 'db_sync'),
        ],
    }
    jobs = [
        Process(name, ['sh', '-c', ' && '.join(chain)], state.run, state.logs)
        for name, chain in chains.items()
    ]
    for job in jobs:
        job.start()
    for job in jobs:
        job.finish()


def make_administrator(state: State) -> None:
    """Make Keystone's first user, and its own entries in the catalog.

    :raises ProcessError: they could not be made; says what was printed.
    """
    url = state.url('keystone')
    bootstrap = _manage(
        state,
        'keystone',
        'bootstrap',
        f'--bootstrap-password={state.secret}',
        f'--bootstrap-admin-url={url}',
        f'--bootstrap-internal-url={url}',
        f'--bootstrap-public-url={url}',
        '--bootstrap-region-id=RegionOne',
    )
    job = Process(
        'keystone-bootstrap', shlex.split(bootstrap), state.run, state.logs
    )
    job.start()
    job.finish()


def _manage(state: State, service: str, *args: str) -> str:
    conf = {'glance': 'glance-api.conf'}.get(service, f'{service}.conf')
    return shlex.join(
        [
            f'{ini.BIN}/{service}-manage',
            f'--config-file={state.conf}/{conf}',
            *args,
        ]
    )


def _program(state: State, name: str, program: str, conf: str) -> Process:
    argv = [f'{ini.BIN}/{program}', f'--config-file={conf}']
    found = Process(name, argv, state.run, state.logs)
    if program == 'diskplacer-agent':
        # it gives back what it has changed
        found.grace = 60
    return found


def _has_consumer(state: State, queue: str) -> bool:
    """Return whether a service receives messages from a queue."""
    url = ini.transport(state).replace('rabbit:', 'amqp:')
    with kombu.Connection(url) as connection:
        try:
            found = connection.default_channel.queue_declare(
                queue, passive=True
            )
        except connection.channel_errors:
            return False
    return bool(found.consumer_count)


def _answers(url: str) -> bool:
    try:
        return requests.get(url, timeout=60).status_code < 500
    except requests.RequestException:
        return False
