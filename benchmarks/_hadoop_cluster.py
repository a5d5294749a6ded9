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

"""Hadoop on this machine: HDFS and YARN with one node of each."""

import json
import pathlib
import re
import shutil
import socket
import subprocess
import time
import typing
import urllib.request
from collections.abc import Callable
from collections.abc import Mapping
from collections.abc import Sequence
from xml.sax import saxutils

POM = pathlib.Path(__file__).with_name('hadoop-pom.xml')
#: Where the jars of Hadoop are kept between runs.
JARS = pathlib.Path(__file__).parents[1] / '.bench' / 'hadoop'
# Seconds that a daemon may take to answer, and a job to end.
_PATIENCE = 120
_LONGEST_JOB = 3600
_PACKAGE = 'org.apache.hadoop'
# Hadoop 3.3 is older than the JDK's modules.
_OPENED = ('lang', 'util', 'io', 'net', 'nio', 'util.concurrent')
# Tasks live for seconds: less is spent on compiling their code.
_JAVA = (
    *(f'--add-opens=java.base/java.{name}=ALL-UNNAMED' for name in _OPENED),
    '--add-opens=java.base/sun.nio.ch=ALL-UNNAMED',
    '-XX:+UseSerialGC',
    '-XX:TieredStopAtLevel=1',
)
_TASK_MIB = 512
_HEAP_MIB = 200
_LOG4J = """
log4j.rootLogger=INFO,console
log4j.appender.console=org.apache.log4j.ConsoleAppender
log4j.appender.console.target=System.err
log4j.appender.console.layout=org.apache.log4j.SimpleLayout
"""


class HadoopError(Exception):
    """Hadoop did not do what it should; the text has the end of its log."""


class Job(typing.NamedTuple):
    """What is sorted, and by how many tasks.

    ``mib`` are written at random by ``maps`` tasks and sorted by as many and
    ``reduces`` more, of which ``slots`` run at once.
    """

    mib: int
    maps: int = 8
    reduces: int = 4
    slots: int = 8


def fetch() -> None:
    """Have Maven fetch the jars of Hadoop, once.

    :raises HadoopError: it cannot.
    """
    if JARS.exists():
        return
    partial = JARS.with_suffix('.part')
    shutil.rmtree(partial, ignore_errors=True)
    done = subprocess.run(
        [
            'mvn', '--quiet', '--batch-mode', f'--file={POM}',
            'dependency:copy-dependencies', f'-DoutputDirectory={partial}',
            '-DincludeScope=runtime',
        ],
        capture_output=True,
        text=True,
    )  # fmt: skip
    if done.returncode:
        raise HadoopError(f'Maven cannot fetch Hadoop: {done.stdout[-2000:]}')
    partial.rename(JARS)


class Cluster:
    """Runs NameNode, DataNode, ResourceManager and NodeManager.

    Leaving the context ends them and all tasks.

    :param work: a directory for configuration, logs and the NameNode.
    :param data: directories, one on each vdisk: Hadoop spreads the blocks of
        HDFS and the intermediate data of tasks over them.
    """

    def __init__(
        self, work: pathlib.Path, data: Sequence[pathlib.Path], job: Job
    ) -> None:
        self._work, self._data, self._job = work, data, job
        self._conf = work / 'conf'
        self._processes: list[subprocess.Popen[bytes]] = []
        self._ports = iter(_free_ports(20))

    def __enter__(self) -> 'Cluster':
        try:
            self._configure()
            self._start()
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(self, *exception: object) -> None:
        self._stop()

    def run(self, program: str, *arguments: str) -> float:
        """Run one of Hadoop's examples, and return the seconds that it took.

        :raises HadoopError: it failed.
        """
        begun = time.monotonic()
        job = self._java(f'{_PACKAGE}.examples.{program}', *arguments)
        try:
            status = job.wait(_LONGEST_JOB)
        except subprocess.TimeoutExpired:
            raise HadoopError(f'{program} does not end') from None
        took = time.monotonic() - begun
        text = self._log(job)
        if status or not re.search(r'The job took \d+ seconds', text):
            raise HadoopError(f'{program} ended by {status}: {text[-3000:]}')
        return took

    def _address(self) -> str:
        return f'localhost:{next(self._ports)}'

    def _configure(self) -> None:
        self._conf.mkdir()
        self._namenode, self._datanode = self._address(), self._address()
        self._namenode_http, self._manager_http = (
            self._address() for _ in range(2)
        )
        (self._conf / 'log4j.properties').write_text(_LOG4J)
        self._write(
            'core-site',
            {
                'fs.defaultFS': f'hdfs://{self._namenode}',
                'hadoop.tmp.dir': str(self._work / 'tmp'),
            },
        )
        self._write('hdfs-site', self._hdfs())
        self._write('yarn-site', self._yarn())
        self._write('mapred-site', self._mapreduce())

    def _directories(self, name: str) -> str:
        found = [data / name for data in self._data]
        for path in found:
            path.mkdir(mode=0o700 if name == 'hdfs' else 0o755)
        return ','.join(map(str, found))

    def _hdfs(self) -> dict[str, object]:
        return {
            'dfs.replication': 1,
            'dfs.blocksize': 8 << 20,
            'dfs.namenode.name.dir': f'file://{self._work}/name',
            'dfs.namenode.rpc-address': self._namenode,
            'dfs.namenode.http-address': self._namenode_http,
            'dfs.namenode.fs-limits.min-block-size': 1 << 20,
            'dfs.namenode.safemode.extension': 0,
            'dfs.datanode.data.dir': self._directories('hdfs'),
            'dfs.datanode.address': self._datanode,
            'dfs.datanode.http.address': self._address(),
            'dfs.datanode.ipc.address': self._address(),
            'dfs.datanode.hostname': 'localhost',
            'dfs.permissions.enabled': 'false',
            # a disk with a limit may take long
            'dfs.client.socket-timeout': 600000,
            'dfs.datanode.socket.write.timeout': 600000,
        }

    def _yarn(self) -> dict[str, object]:
        manager, node = 'yarn.resourcemanager', 'yarn.nodemanager'
        fifo = f'{_PACKAGE}.yarn.server.resourcemanager.scheduler.fifo'
        return {
            f'{manager}.hostname': 'localhost',
            f'{manager}.address': self._address(),
            f'{manager}.scheduler.address': self._address(),
            f'{manager}.resource-tracker.address': self._address(),
            f'{manager}.admin.address': self._address(),
            f'{manager}.webapp.address': self._manager_http,
            f'{manager}.scheduler.class': f'{fifo}.FifoScheduler',
            f'{manager}.nodemanagers.heartbeat-interval-ms': 100,
            f'{node}.hostname': 'localhost',
            f'{node}.address': self._address(),
            f'{node}.localizer.address': self._address(),
            f'{node}.webapp.address': self._address(),
            f'{node}.collector-service.address': self._address(),
            f'{node}.local-dirs': self._directories('intermediate'),
            f'{node}.log-dirs': str(self._work / 'tasks'),
            f'{node}.aux-services': 'mapreduce_shuffle',
            # the tasks, and the application's master
            f'{node}.resource.memory-mb': _TASK_MIB * (self._job.slots + 1),
            f'{node}.resource.cpu-vcores': 64,
            f'{node}.vmem-check-enabled': 'false',
            f'{node}.pmem-check-enabled': 'false',
            f'{node}.disk-health-checker.'
            'max-disk-utilization-per-disk-percentage': 100,
            'yarn.scheduler.minimum-allocation-mb': _TASK_MIB,
            'yarn.application.classpath': self._classpath(),
        }

    def _mapreduce(self) -> dict[str, object]:
        job = self._job
        java = ' '.join((f'-Xmx{_HEAP_MIB}m', *_JAVA))
        return {
            'mapreduce.framework.name': 'yarn',
            'mapreduce.application.classpath': self._classpath(),
            'mapreduce.shuffle.port': next(self._ports),
            'mapreduce.map.memory.mb': _TASK_MIB,
            'mapreduce.reduce.memory.mb': _TASK_MIB,
            'mapreduce.map.java.opts': java,
            'mapreduce.reduce.java.opts': java,
            'mapreduce.map.speculative': 'false',
            'mapreduce.reduce.speculative': 'false',
            'mapreduce.task.io.sort.mb': 64,
            'mapreduce.task.timeout': 3600000,
            'mapreduce.input.fileinputformat.split.minsize': 256 << 20,
            'mapreduce.randomwriter.mapsperhost': job.maps,
            'mapreduce.randomwriter.bytespermap': (job.mib << 20) // job.maps,
            'yarn.app.mapreduce.am.resource.mb': _TASK_MIB,
            'yarn.app.mapreduce.am.command-opts': java,
            'yarn.app.mapreduce.am.staging-dir': '/staging',
        }

    def _classpath(self) -> str:
        return f'{self._conf}:{JARS}/*'

    def _write(self, name: str, properties: Mapping[str, object]) -> None:
        lines = [
            f'<property><name>{key}</name>'
            f'<value>{saxutils.escape(str(value))}</value></property>'
            for key, value in properties.items()
        ]
        text = '\n'.join(['<configuration>', *lines, '</configuration>\n'])
        (self._conf / f'{name}.xml').write_text(text)

    def _start(self) -> None:
        namenode = f'{_PACKAGE}.hdfs.server.namenode.NameNode'
        formatting = self._java(namenode, '-format', '-nonInteractive')
        if formatting.wait(_PATIENCE):
            raise HadoopError(self._log(formatting)[-3000:])
        server = f'{_PACKAGE}.yarn.server'
        daemons = [
            self._java(name)
            for name in (
                namenode,
                f'{_PACKAGE}.hdfs.server.datanode.DataNode',
                f'{server}.resourcemanager.ResourceManager',
                f'{server}.nodemanager.NodeManager',
            )
        ]
        self._wait(daemons, self._has_datanode)
        self._wait(daemons, self._has_nodemanager)

    def _has_datanode(self) -> bool:
        name = 'Hadoop:service=NameNode,name=FSNamesystemState'
        return _bean(self._namenode_http, name).get('NumLiveDataNodes') == 1

    def _has_nodemanager(self) -> bool:
        name = 'Hadoop:service=ResourceManager,name=ClusterMetrics'
        return _bean(self._manager_http, name).get('NumActiveNMs') == 1

    def _wait(
        self,
        daemons: Sequence[subprocess.Popen[bytes]],
        ready: Callable[[], bool],
    ) -> None:
        deadline = time.monotonic() + _PATIENCE
        while not ready():
            for daemon in daemons:
                if daemon.poll() is not None:
                    raise HadoopError(self._log(daemon)[-3000:])
            if time.monotonic() > deadline:
                raise HadoopError(f'{ready.__name__} does not become true')
            time.sleep(0.2)

    def _java(self, name: str, *arguments: str) -> subprocess.Popen[bytes]:
        path = self._work / f'{len(self._processes)}.log'
        with path.open('wb') as log:
            process = subprocess.Popen(
                [
                    _java_home() / 'bin' / 'java', *_JAVA, '-Xmx256m',
                    f'-Dhadoop.log.dir={self._work}', '-cp',
                    self._classpath(), name, *arguments,
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self._work,
                env={
                    'PATH': '/usr/bin:/bin',
                    'HADOOP_CONF_DIR': str(self._conf),
                    'HADOOP_USER_NAME': 'root',
                    'USER': 'root',
                    'JAVA_HOME': str(_java_home()),
                },
            )  # fmt: skip
        self._processes.append(process)
        return process

    def _log(self, process: subprocess.Popen[bytes]) -> str:
        number = self._processes.index(process)
        return (self._work / f'{number}.log').read_text(errors='replace')

    def _stop(self) -> None:
        for process in reversed(self._processes):
            process.terminate()
        for process in self._processes:
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        # tasks are in sessions of their own, and have the directory in their
        # command lines
        subprocess.run(['pkill', '-KILL', '--full', str(self._conf)])


def _java_home() -> pathlib.Path:
    java = shutil.which('java')
    if java is None:
        raise HadoopError('java is not installed')
    return pathlib.Path(java).resolve().parents[1]


def _bean(address: str, name: str) -> dict[str, typing.Any]:
    """Return what a daemon says of itself; nothing while it starts."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(
            f'http://{address}/jmx?qry={name}', timeout=5
        ) as page:
            beans = json.load(page)['beans']
    except (OSError, ValueError, KeyError):
        return {}
    return dict(beans[0]) if beans else {}


def _free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    try:
        for one in sockets:
            one.bind(('127.0.0.1', 0))
        return [int(one.getsockname()[1]) for one in sockets]
    finally:
        for one in sockets:
            one.close()
