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

"""The claims of P3, the draft of P0, that a sweep can judge.

A figure of the paper stands beside ours. The rule judges the direction, and
the figure only where the rule has it.
"""

import functools

from diskplacer_measure.papers import claims
from diskplacer_measure.sweep import rules

# Parts of the section Results.
_ON_READS = 'Results, Sequential Read'
_ON_WRITES = 'Results, Sequential Write'
_ON_FAIRNESS = (
    f'{_ON_READS}; Fig. "Jain Fairness Index of different scenarios"'
)

_claim = functools.partial(claims.Claim, 'P3')


def _many(threads: int) -> bool:
    """Return whether shapes differ: they do from 4 threads on."""
    return threads >= 4


def _most_servers_to_two(results: rules.Results) -> list[rules.Comparison]:
    several = {
        **claims.READ,
        'scenario': 'servers',
        'host_scheduler': claims.FRIENDLY,
    }
    two = rules.where(results, servers=2, **several)
    most = rules.most_threads(results, **several)
    rows = rules.ratios(
        results,
        [cell for cell in most if cell.servers > 2],
        two,
        ('servers', 'threads'),
    )
    return [rules.Comparison('most servers to two', rules.MORE, rows)]


CLAIMS = (
    _claim(
        'bfq_bare_threads',
        f'{_ON_READS}; Introduction',
        'asynchronous',
        'With CFQ, reads of bare metal change little with more threads.',
        'little change from 1 to 16 threads',
        rules.more_threads(
            'most threads to one, BFQ',
            rules.ALIKE,
            scenario='bare',
            host_scheduler='bfq',
            **claims.READ,
        ),
    ),
    _claim(
        'bfq_servers',
        f'{_ON_READS}; Introduction',
        'asynchronous',
        'With CFQ, reads of servers fall to a part of those of bare metal '
        'when there are more threads.',
        'about 40 %',
        rules.to_bare_metal(
            'one server to bare metal, most threads, BFQ',
            rules.LESS,
            rules.most_threads,
            scenario='server',
            host_scheduler='bfq',
            **claims.READ,
        ),
    ),
    _claim(
        'four_threads',
        _ON_READS,
        'asynchronous',
        'With deadline or noop, reads of bare metal fall with 4 threads.',
        'to 35 %',
        rules.more_threads(
            '4 threads to one',
            rules.LESS,
            lambda threads: threads == 4,
            scenario='bare',
            host_scheduler=claims.FRIENDLY,
            **claims.READ,
        ),
    ),
    _claim(
        'many_threads',
        _ON_READS,
        'asynchronous',
        'With deadline or noop, reads of bare metal fall further above 8 '
        'threads.',
        'to 19 %',
        rules.more_threads(
            'more than 8 threads to one',
            rules.LESS,
            lambda threads: threads > 8,
            scenario='bare',
            host_scheduler=claims.FRIENDLY,
            **claims.READ,
        ),
    ),
    _claim(
        'four_or_eight_vcpus',
        _ON_READS,
        'asynchronous',
        'With deadline or noop, a server of 4 or 8 vCPUs reads as fast with '
        'more threads.',
        '80 MB/s',
        rules.more_threads(
            'most threads to one, 4 or 8 vCPUs',
            rules.NOT_LESS,
            scenario='server',
            vcpus=(4, 8),
            host_scheduler=claims.FRIENDLY,
            **claims.READ,
        ),
    ),
    _claim(
        'one_or_two_vcpus',
        _ON_READS,
        'asynchronous',
        'With deadline or noop, a server of 1 or 2 vCPUs is slower, but '
        'faster than bare metal.',
        '28 MB/s',
        rules.all_of(
            rules.swapped(
                '1 or 2 vCPUs to 4 or 8, 4 threads and more',
                rules.LESS,
                'vcpus',
                ((1, 2), (4, 8)),
                ('ram_mib',),
                scenario='server',
                jobs=_many,
                host_scheduler=claims.FRIENDLY,
                **claims.READ,
            ),
            rules.to_bare_metal(
                '1 or 2 vCPUs to bare metal, 4 threads and more',
                rules.MORE,
                scenario='server',
                vcpus=(1, 2),
                jobs=_many,
                host_scheduler=claims.FRIENDLY,
                **claims.READ,
            ),
        ),
    ),
    _claim(
        'sixteen_vcpus',
        _ON_READS,
        'asynchronous',
        'A server of 16 vCPUs is between those of 4 or 8 and those of 1 or 2.',
        'between 28 and 80 MB/s',
        rules.all_of(
            *(
                rules.swapped(
                    f'16 vCPUs to {text}, 4 threads and more',
                    allowed,
                    'vcpus',
                    (16, others),
                    ('ram_mib',),
                    scenario='server',
                    jobs=_many,
                    host_scheduler=claims.FRIENDLY,
                    **claims.READ,
                )
                for text, allowed, others in (
                    ('4 or 8', rules.LESS, (4, 8)),
                    ('1 or 2', rules.MORE, (1, 2)),
                )
            )
        ),
    ),
    _claim(
        'two_servers',
        _ON_READS,
        'asynchronous',
        'Two servers with a thread each read slowly together, more of them '
        'faster again.',
        '17 MB/s with two',
        rules.all_of(
            rules.swapped(
                'two servers to one',
                rules.MUCH_LESS,
                'servers',
                (2, 1),
                ('scenario', 'threads'),
                scenario=claims.SERVERS,
                jobs=1,
                host_scheduler=claims.FRIENDLY,
                **claims.READ,
            ),
            _most_servers_to_two,
        ),
    ),
    _claim(
        'faster_than_bare',
        'Introduction',
        'asynchronous',
        'With deadline or noop and many threads, a server reads faster than '
        'bare metal.',
        '19 % of one thread on bare metal, 80 MB/s in the server',
        rules.to_bare_metal(
            'one server to bare metal, most threads',
            rules.MORE,
            rules.most_threads,
            scenario='server',
            host_scheduler=claims.FRIENDLY,
            **claims.READ,
        ),
    ),
    _claim(
        'most_of_bare',
        'Introduction',
        'asynchronous',
        'A server reaches most of the throughput of bare metal.',
        '80 to 90 %',
        rules.to_bare_metal(
            'one server to bare metal, one thread',
            rules.Range(low=0.8),
            scenario='server',
            jobs=1,
            engine='async',
            host_scheduler=claims.FRIENDLY,
        ),
        'With one thread, as in the studies that the paper repeats.',
    ),
    _claim(
        'deadline_and_none',
        _ON_READS,
        'asynchronous',
        'Deadline and noop behave almost the same.',
        'almost identical',
        rules.swapped(
            'mq-deadline to none',
            rules.ALIKE,
            'host_scheduler',
            ('mq-deadline', 'none'),
            engine='async',
        ),
    ),
    _claim(
        'bare_writes',
        _ON_WRITES,
        'asynchronous',
        'Writes of bare metal do not depend on the scheduler.',
        'no change',
        claims.WRITES_ARE_ALIKE,
    ),
    _claim(
        'bfq_writes',
        _ON_WRITES,
        'asynchronous',
        'Servers write faster with deadline or noop than with CFQ.',
        'about 85 to about 70 MB/s',
        rules.swapped(
            'mq-deadline and none to BFQ',
            rules.MORE,
            'host_scheduler',
            (claims.FRIENDLY, 'bfq'),
            scenario=claims.SERVERS,
            **claims.WRITE,
        ),
    ),
    _claim(
        'bfq_bare_fairness',
        _ON_FAIRNESS,
        'fairness',
        'With CFQ, bare metal is less fair with more threads.',
        'Jain index 1 with 1 thread, 0.85 with 16',
        rules.fair(
            'Jain index, most threads, BFQ',
            rules.LESS,
            rules.most_threads,
            scenario='bare',
            host_scheduler='bfq',
            **claims.READ,
        ),
    ),
    _claim(
        'bfq_server_fairness',
        _ON_FAIRNESS,
        'fairness',
        'With CFQ, servers stay fair.',
        'Jain index 1',
        rules.fair(
            'Jain index, servers, BFQ',
            rules.Range(low=0.95),
            scenario=claims.SERVERS,
            host_scheduler='bfq',
            **claims.READ,
        ),
    ),
    _claim(
        'bare_fairness',
        'Introduction; Conclusion',
        'fairness',
        'Bare metal is fair with each scheduler.',
        'Jain index 0.85 or more',
        rules.all_of(
            *(
                rules.fair(
                    f'Jain index, {scheduler}',
                    rules.Range(low=0.85),
                    scenario='bare',
                    host_scheduler=scheduler,
                    **claims.READ,
                )
                for scheduler in ('bfq', *claims.FRIENDLY)
            )
        ),
    ),
    _claim(
        'cache_mode',
        f'{_ON_WRITES}; Fig. "Write-through cache is using on the host and '
        'the VMs"',
        'cache mode',
        'A write-through cache makes writes slower than a write-back cache.',
        'bars only',
        rules.swapped(
            'write-through modes to the others',
            rules.LESS,
            'cache_mode',
            (('writethrough', 'directsync'), ('none', 'writeback')),
            scenario=claims.SERVERS,
            operation='write',
        ),
        "The paper changes the controller's cache; a sweep compares cache "
        'modes of QEMU, of which the write-through ones flush each write.',
    ),
)
