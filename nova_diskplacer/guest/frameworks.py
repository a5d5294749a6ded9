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

"""Frameworks that spread data over directories, and their properties.

Paths, users and groups are those of Apache Bigtop's packages, for Cassandra
those of Apache's own.
"""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Directory:
    """A directory on each vdisk, and the property that lists them."""

    name: str
    owner: str
    mode: int
    file: str
    syntax: str
    property: str
    prefix: str = ''


#: The directories that a framework has on each vdisk.
FRAMEWORKS: dict[str, tuple[Directory, ...]] = {
    'hadoop': (
        Directory(
            'hdfs',
            'hdfs:hadoop',
            0o700,
            '/etc/hadoop/conf/hdfs-site.xml',
            'xml',
            'dfs.datanode.data.dir',
            'file://',
        ),
        Directory(
            'yarn',
            'yarn:hadoop',
            0o755,
            '/etc/hadoop/conf/yarn-site.xml',
            'xml',
            'yarn.nodemanager.local-dirs',
        ),
    ),
    'spark': (
        Directory(
            'spark',
            'spark:spark',
            0o1777,
            '/etc/spark/conf/spark-defaults.conf',
            'properties',
            'spark.local.dir',
        ),
    ),
    'kafka': (
        Directory(
            'kafka',
            'kafka:kafka',
            0o750,
            '/etc/kafka/conf/server.properties',
            'properties',
            'log.dirs',
        ),
    ),
    'cassandra': (
        Directory(
            'cassandra',
            'cassandra:cassandra',
            0o750,
            '/etc/cassandra/cassandra.yaml',
            'yaml',
            'data_file_directories',
        ),
    ),
    'plain': (),
}
