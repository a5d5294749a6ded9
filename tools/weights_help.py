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

"""What [diskplacer_weights] prefer gains and costs, written into its help.

The figures are those of the committed results, which a package does not have.
So this script writes the last paragraph of the help into
``nova_diskplacer/conf/weights.py``; ``tox -e genconfig`` puts it into the
sample. With --check it writes nothing, and fails if the paragraph would
differ.
"""

import pathlib
import sys
import textwrap

TOP = pathlib.Path(__file__).parents[1]
sys.path[:0] = [str(TOP), str(TOP / 'benchmarks')]

import _results  # noqa: E402
from tools import generated  # noqa: E402

OPTIONS = TOP / 'nova_diskplacer' / 'conf' / 'weights.py'
# The option, what its help has before the paragraph, and what follows it.
_OPTION = "        'prefer',\n"
_BEFORE = '\nweights alone decide.\n'
_AFTER = '""",\n'

_PREFER = {'throughput': '-throughput', 'balanced': '', 'latency': '-latency'}
_DISKS = {
    'contention': 'a disk of 19.5 MB/s that does not seek',
    'contention-seeking': 'a hard disk that seeks',
}
_RATIO = 'steady_latency_ms_ratio'
_LOST = 'steady_sum_lost'


def paragraph(results: _results.Results) -> str:
    """Return the paragraph; it is empty without results of any disk."""
    sentences = []
    for name, disk in _DISKS.items():
        found = [results.get(name + end) for end in _PREFER.values()]
        ratios, losses = (
            [
                value
                for one in found
                if one and (value := _figure(one, f'bfq_{figure}')) is not None
            ]
            for figure in (_RATIO, _LOST)
        )
        if len(ratios) == len(losses) == len(_PREFER):
            ratio = _series([f'{one:.2f}' for one in ratios])
            less = _series([_per_cent(one) for one in losses])
            sentences.append(
                f'On {disk} its latency is {ratio} of that without '
                f'the agent, and the throughput of both is {less} % less.'
            )
    if not sentences:
        return ''
    if 'contention' in results:
        one_ratio, lost = (
            _figure(results['contention'], f'io_cost_{figure}')
            for figure in (_RATIO, _LOST)
        )
        if one_ratio is not None and lost is not None:
            sentences.append(
                f'With io.cost it is {one_ratio:.2f} with each, on '
                f'{_DISKS["contention"]}, and the throughput of both is '
                f'{_per_cent(lost)} % less.'
            )
    names = _series([f'``{name}``' for name in _PREFER])
    begin = (
        'Measured with a server that reads 3 MB/s at random places beside a '
        f'scan, with BFQ and {names}:'
    )
    return textwrap.fill(' '.join([begin, *sentences]), 79) + '\n'


def _figure(result: _results.Result, name: str) -> float | None:
    value = result.value(name)
    return None if value is None else value.value


def _per_cent(share: float) -> str:
    # no −0.0
    return f'{round(100 * share, 1) + 0.0:.1f}'


def _series(words: list[str]) -> str:
    *first, last = words
    return f'{", ".join(first)} and {last}'


def written(text: str, results: _results.Results) -> str:
    """Return the text of the options with the paragraph as it should be.

    :raises ValueError: the help is not found in it.
    """
    start = text.index(_OPTION)
    begin = text.index(_BEFORE, start) + len(_BEFORE)
    end = text.index(_AFTER, begin)
    found = paragraph(results)
    return text[:begin] + (f'\n{found}' if found else '') + text[end:]


def main() -> int:
    results = _results.read()
    return generated.main(
        __doc__,
        OPTIONS,
        'tools/weights_help.py',
        lambda text: written(text, results),
    )


if __name__ == '__main__':
    sys.exit(main())
