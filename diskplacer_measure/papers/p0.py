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

"""The claims of P0 that a sweep can judge.

A figure of the paper stands beside ours. The rule judges the direction, and
the figure only where the rule has it.
"""

import functools

from diskplacer_measure.papers import claims
from diskplacer_measure.sweep import rules

_BLOCKING = ('sync_direct', 'sync_cached')

_claim = functools.partial(claims.Claim, 'P0')


def _largest_memory(results: rules.Results) -> list[rules.Comparison]:
    servers = rules.where(results, scenario='server')
    memory = max((cell.ram_mib for cell in servers), default=0)
    rule = rules.to_bare_metal(
        'the server with the most memory to bare metal',
        rules.LESS,
        scenario='server',
        ram_mib=memory,
        engine='sync_cached',
        operation='write',
        host_scheduler=claims.FRIENDLY,
    )
    return rule(results)


def _slim_beat_fat(results: rules.Results) -> list[rules.Comparison]:
    blocking = {'engine': _BLOCKING, 'host_scheduler': claims.FRIENDLY}
    single = rules.where(results, scenario='server', **blocking)
    most = max((cell.vcpus for cell in single), default=0)
    fat = [cell for cell in single if cell.vcpus == most]
    slim = rules.where(
        results,
        scenario='servers',
        vcpus=lambda vcpus: vcpus < most,
        **blocking,
    )
    besides = ('scenario', 'servers', 'jobs', 'vcpus', 'ram_mib')
    return [
        rules.Comparison(
            'several slimmer servers to one with the most vCPUs',
            rules.MORE,
            rules.ratios(results, slim, fat, besides),
        )
    ]


def _four_are_best(results: rules.Results) -> list[rules.Comparison]:
    reads = {
        **claims.READ,
        'scenario': 'server',
        'host_scheduler': claims.FRIENDLY,
    }
    others = {cell.vcpus for cell in rules.where(results, **reads)} - {4}
    rule = rules.all_of(
        *(
            rules.swapped(
                f'4 vCPUs to {other}',
                rules.MORE,
                'vcpus',
                (4, other),
                ('ram_mib',),
                **reads,
            )
            for other in sorted(others)
        )
    )
    return rule(results)


CLAIMS = (
    _claim(
        'direct_reads',
        '§V-A, Fig. 3(a)',
        'blocking',
        'Without page caches, blocking reads of servers lose against bare '
        'metal.',
        '50 to 60 % less',
        rules.to_bare_metal(
            'one server to bare metal',
            rules.MUCH_LESS,
            scenario='server',
            engine='sync_direct',
            operation='read',
            host_scheduler=claims.FRIENDLY,
        ),
    ),
    _claim(
        'cached_reads',
        '§V-A, Fig. 3',
        'blocking',
        "With the server's page cache, read-ahead makes up for that loss.",
        'substantial benefits',
        rules.all_of(
            rules.to_bare_metal(
                'one server to bare metal, through the page cache',
                rules.NOT_LESS,
                scenario='server',
                engine='sync_cached',
                operation='read',
                host_scheduler=claims.FRIENDLY,
            ),
            rules.swapped(
                'one server, page cache to direct',
                rules.MUCH_MORE,
                'engine',
                ('sync_cached', 'sync_direct'),
                scenario='server',
                operation='read',
                host_scheduler=claims.FRIENDLY,
            ),
        ),
    ),
    _claim(
        'memory_of_reads',
        '§V-A, Fig. 3',
        'blocking',
        'The size of the page cache does not matter for data that is read '
        'once.',
        'no substantial impact',
        rules.more_memory(
            'more memory to the least',
            rules.ALIKE,
            engine='sync_cached',
            operation='read',
        ),
    ),
    _claim(
        'direct_writes',
        '§V-A, Fig. 3(a)',
        'blocking',
        'Without page caches, the overhead of virtualization is severe for '
        'blocking writes.',
        'bars only',
        rules.to_bare_metal(
            'one server to bare metal',
            rules.MUCH_LESS,
            scenario='server',
            engine='sync_direct',
            operation='write',
            host_scheduler=claims.FRIENDLY,
        ),
    ),
    _claim(
        'memory_of_writes',
        '§V-A, Fig. 3',
        'blocking',
        'With the page cache, servers with more memory write faster.',
        'dirty pages may fill 15 % of the memory',
        rules.more_memory(
            'more memory to the least',
            rules.MORE,
            engine='sync_cached',
            operation='write',
        ),
    ),
    _claim(
        'large_memory',
        '§V-A, Fig. 3(c)',
        'blocking',
        'With a large page cache, one server does not reach bare metal, and '
        'many servers with one vCPU do.',
        'bars only',
        rules.all_of(
            _largest_memory,
            rules.to_bare_metal(
                'most servers with 1 vCPU to bare metal',
                rules.NOT_LESS,
                rules.most_threads,
                scenario='servers',
                vcpus=1,
                engine='sync_cached',
                operation='write',
                host_scheduler=claims.FRIENDLY,
            ),
        ),
    ),
    _claim(
        'slim_servers',
        '§V-A',
        'blocking',
        'Many slim servers do better than few fat ones.',
        'no figure',
        _slim_beat_fat,
        'Fat is the server with the most vCPUs of the sweep.',
    ),
    _claim(
        'blocking_threads',
        '§V-A',
        'blocking',
        'Blocking I/O gains from many threads.',
        'substantial benefits',
        rules.more_threads(
            'most threads to one',
            rules.MUCH_MORE,
            scenario=('bare', 'server'),
            engine=_BLOCKING,
            host_scheduler=claims.FRIENDLY,
        ),
    ),
    _claim(
        'bfq_reads',
        '§V-B, Fig. 4',
        'asynchronous',
        'CFQ on the host damages asynchronous reads of servers.',
        'bars only',
        rules.swapped(
            'BFQ to mq-deadline and none',
            rules.MUCH_LESS,
            'host_scheduler',
            ('bfq', claims.FRIENDLY),
            scenario=claims.SERVERS,
            **claims.READ,
        ),
    ),
    _claim(
        'deadline_and_none',
        '§V-B, Fig. 4',
        'asynchronous',
        'Deadline and noop are alike for asynchronous reads.',
        'similar',
        rules.swapped(
            'mq-deadline to none',
            rules.ALIKE,
            'host_scheduler',
            ('mq-deadline', 'none'),
            **claims.READ,
        ),
    ),
    _claim(
        'async_reads',
        '§V-B, Fig. 4',
        'asynchronous',
        'With deadline or noop, servers read faster than bare metal.',
        'bars only',
        rules.to_bare_metal(
            'one server to bare metal',
            rules.MORE,
            scenario='server',
            host_scheduler=claims.FRIENDLY,
            **claims.READ,
        ),
    ),
    _claim(
        'four_vcpus',
        '§V-B, Fig. 4',
        'asynchronous',
        'The server with 4 vCPUs reads fastest.',
        '4 vCPUs',
        _four_are_best,
    ),
    _claim(
        'competing_servers',
        '§V-B, Fig. 4',
        'asynchronous',
        'Servers that share a disk read fastest while they do not compete.',
        'bars only',
        rules.swapped(
            'several servers to one of them alone, a thread each',
            rules.LESS,
            'scenario',
            ('servers', 'server'),
            ('servers', 'threads'),
            jobs=1,
            host_scheduler=claims.FRIENDLY,
            **claims.READ,
        ),
    ),
    _claim(
        'bare_writes',
        '§V-B, Fig. 4',
        'asynchronous',
        'Asynchronous writes of bare metal do not depend on the scheduler.',
        'consistent',
        claims.WRITES_ARE_ALIKE,
    ),
    _claim(
        'bfq_writes',
        '§V-B, Fig. 4',
        'asynchronous',
        'Servers write much faster with deadline or noop than with CFQ.',
        'drastically improves',
        rules.swapped(
            'mq-deadline and none to BFQ',
            rules.MUCH_MORE,
            'host_scheduler',
            (claims.FRIENDLY, 'bfq'),
            scenario=claims.SERVERS,
            **claims.WRITE,
        ),
    ),
    _claim(
        'async_writes',
        '§V-B, Fig. 4',
        'asynchronous',
        'With deadline or noop, servers write about as fast as bare metal.',
        'roughly the same',
        rules.to_bare_metal(
            'one server to bare metal',
            rules.ALIKE,
            scenario='server',
            host_scheduler=claims.FRIENDLY,
            **claims.WRITE,
        ),
    ),
    _claim(
        'writes_and_reads',
        '§V-B, Fig. 4',
        'asynchronous',
        'Writes are faster than reads.',
        'bars only',
        rules.swapped(
            'writes to reads',
            rules.MORE,
            'operation',
            ('write', 'read'),
            engine='async',
            host_scheduler=claims.FRIENDLY,
        ),
        'The paper explains it by the write-back cache of its controller.',
    ),
    _claim(
        'fairness',
        '§IV-B',
        'fairness',
        'All scenarios are fair.',
        'Jain index close to 1',
        rules.fair('Jain index, all cells', rules.Range(low=0.9)),
    ),
)
