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


"""What the OpenStack services stand on: MariaDB, RabbitMQ, memcached.

Each runs with a directory, ports and (RabbitMQ) an epmd of its own.
"""

import collections.abc
import contextlib
import fcntl
import hashlib
import importlib.metadata
import pathlib
import shutil
import sys

from tools.minicloud import process
from tools.minicloud.process import Process
from tools.minicloud.state import State

DATABASES = (
    'keystone',
    'placement',
    'glance',
    'nova_api',
    'nova_cell0',
    'nova_cell1',
    'cinder',
    'heat',
)


# What makes the schemas that are kept.
_PACKAGES = (
    'keystone',
    'openstack-placement',
    'glance',
    'nova',
    'cinder',
    'openstack-heat',
)


@contextlib.contextmanager
def _kept() -> collections.abc.Iterator[pathlib.Path]:
    """Hold the lock of the data that is kept, in the Python environment.

    It is that of a database server with all schemas: to make them takes a
    quarter of the processor time of a cloud's start.
    """
    directory = pathlib.Path(sys.prefix) / 'databases'
    directory.mkdir(exist_ok=True)
    with (directory / 'lock').open('w') as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield directory


def _key() -> str:
    """Return what changes with the schemas."""
    parts = [process.run('mariadbd', '--no-defaults', '--version')]
    parts += [importlib.metadata.version(name) for name in _PACKAGES]
    parts.append(pathlib.Path(__file__).with_name('services.py').read_text())
    return hashlib.sha256('\0'.join(parts).encode()).hexdigest()[:12]


def keep_data(state: State) -> None:
    """Keep the data of a database server, which is stopped, for others."""
    with _kept() as directory:
        for old in directory.iterdir():
            if old.is_dir():
                shutil.rmtree(old)
        _copy(_data(state), directory / 'new')
        (directory / 'new').rename(directory / _key())


def _data(state: State) -> pathlib.Path:
    return state.path / 'mariadb' / 'data'


def _copy(source: pathlib.Path, target: pathlib.Path) -> None:
    # most of the log and of the tablespace is empty
    process.run(
        *('cp', '--recursive', '--preserve=mode', '--sparse=always'),
        *(str(source), str(target)),
    )


def make_data(state: State) -> bool:
    """Make the database server's data; tells whether schemas are there."""
    directory = state.path / 'mariadb'
    directory.mkdir(exist_ok=True)
    with _kept() as kept:
        found = (kept / _key()).exists()
        if found:
            _copy(kept / _key(), _data(state))
    if not found:
        process.run(
            'mariadb-install-db',
            '--no-defaults',
            f'--datadir={_data(state)}',
            '--user=root',
            '--auth-root-authentication-method=normal',
            '--skip-test-db',
            log=state.logs / 'mariadb-install.log',
        )
    sql = [
        f"CREATE OR REPLACE USER openstack@'127.0.0.1' "
        f"IDENTIFIED BY '{state.secret}';",
        "GRANT ALL ON *.* TO openstack@'127.0.0.1';",
    ]
    sql += [
        f'CREATE DATABASE IF NOT EXISTS {name} CHARACTER SET utf8mb3;'
        for name in DATABASES
    ]
    init = directory / 'init.sql'
    init.write_text('\n'.join(sql) + '\n')
    init.chmod(0o600)
    return found


def mariadb(state: State) -> Process:
    directory = state.path / 'mariadb'
    port = state.ports['mariadb']
    return Process(
        'mariadb',
        [
            'mariadbd',
            '--no-defaults',
            '--user=root',
            f'--datadir={_data(state)}',
            f'--socket={directory}/socket',
            f'--pid-file={directory}/pid',
            f'--port={port}',
            '--bind-address=127.0.0.1',
            f'--init-file={directory}/init.sql',
            '--max-connections=600',
            '--skip-log-bin',
            # it is kept, and copied to each new cloud
            '--innodb-log-file-size=16M',
            '--skip-name-resolve',
            # a cloud of minutes need not survive a power cut
            '--innodb-flush-log-at-trx-commit=0',
            '--innodb-doublewrite=0',
            # services may be slow
            '--connect-timeout=120',
            '--innodb-lock-wait-timeout=300',
        ],
        state.run,
        state.logs,
        ready=lambda: process.port_open(port),
        # its data is kept for others
        grace=60,
    )


def epmd(state: State) -> Process:
    port = state.ports['epmd']
    return Process(
        'epmd',
        ['epmd', '-port', str(port), '-address', '127.0.0.1'],
        state.run,
        state.logs,
        ready=lambda: process.port_open(port),
    )


def rabbitmq(state: State) -> Process:
    """Return the message broker, run without Debian's wrapper.

    The wrapper limits the number of open files to about 1,000.
    """
    directory = state.path / 'rabbitmq'
    directory.mkdir(exist_ok=True)
    port = state.ports['rabbitmq']
    config = directory / 'rabbitmq.conf'
    config.write_text(
        f'listeners.tcp.1 = 127.0.0.1:{port}\n'
        'default_user = openstack\n'
        f'default_pass = {state.secret}\n'
        'log.console = true\n'
        'log.console.level = warning\n'
        'log.file = false\n'
        'disk_free_limit.absolute = 50MB\n'
    )
    config.chmod(0o600)
    (directory / 'enabled_plugins').write_text('[].\n')
    (directory / 'env.conf').touch()
    return Process(
        'rabbitmq',
        ['/usr/lib/rabbitmq/bin/rabbitmq-server'],
        state.run,
        state.logs,
        env=rabbitmq_environment(state),
        ready=lambda: process.port_open(port),
        grace=60,
    )


def rabbitmq_environment(state: State) -> dict[str, str]:
    """Return what makes RabbitMQ and its tools use our directory."""
    directory = state.path / 'rabbitmq'
    return {
        'HOME': str(directory),
        'ERL_CRASH_DUMP': f'{directory}/erl_crash.dump',
        'ERL_EPMD_PORT': str(state.ports['epmd']),
        'ERL_EPMD_ADDRESS': '127.0.0.1',
        'RABBITMQ_NODENAME': f'{state.token}@localhost',
        'RABBITMQ_DIST_PORT': str(state.ports['rabbitmq_dist']),
        'RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS': (
            '-kernel inet_dist_use_interface {127,0,0,1}'
        ),
        'RABBITMQ_CONF_ENV_FILE': f'{directory}/env.conf',
        'RABBITMQ_CONFIG_FILE': f'{directory}/rabbitmq.conf',
        'RABBITMQ_ADVANCED_CONFIG_FILE': f'{directory}/advanced.config',
        'RABBITMQ_ENABLED_PLUGINS_FILE': f'{directory}/enabled_plugins',
        'RABBITMQ_MNESIA_BASE': f'{directory}/mnesia',
        'RABBITMQ_LOG_BASE': f'{directory}/log',
        'RABBITMQ_PID_FILE': f'{directory}/pid',
        'RABBITMQ_GENERATED_CONFIG_DIR': f'{directory}/config',
    }


def memcached(state: State) -> Process:
    port = state.ports['memcached']
    return Process(
        'memcached',
        ['memcached', '-u', 'root', '-l', '127.0.0.1', '-p', str(port)],
        state.run,
        state.logs,
        ready=lambda: process.port_open(port),
    )
