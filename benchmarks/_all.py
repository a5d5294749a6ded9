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
"""Measures all results, or small ones of all benchmarks in an hour.

The results are what is left to do: one that has been measured by its command
with the code as it is is not measured again. So the same command continues a
run that was interrupted. A benchmark that fails does not stop the others. The
exit status is 0 if all results are there.

``all`` writes to benchmarks/results and takes a day at most. ``quick`` has
shorter runs, whose figures are not those of the documentation, and writes to
.bench/quick.
"""

import argparse
import collections.abc
import datetime
import hashlib
import json
import os
import pathlib
import shlex
import signal
import subprocess
import sys
import time
import typing

import _catalogue
import _results
from tools import provenance

STATE = provenance.TOP / '.bench'
HOURS = {'all': 24.0, 'quick': 2.0}

# What one may take more than the catalogue says, before it is ended.
_SLACK = 3
_SLACK_MINUTES = 15
_END_S = 120


class Job(typing.NamedTuple):
    """A result to be measured, by ``arguments`` of a benchmark."""

    name: str
    benchmark: str
    arguments: str
    minutes: int


def jobs(quick: bool) -> list[Job]:
    """Return the jobs, those that take the least time first."""
    found = []
    for benchmark, one in _catalogue.BENCHMARKS.items():
        if one.script:
            continue
        for name, run in one.runs.items():
            if not quick:
                job = Job(name, benchmark, run.arguments, run.minutes)
            elif run.quick is not None:
                job = Job(name, benchmark, run.quick, run.quick_minutes)
            else:
                continue
            found.append(job)
    return sorted(found, key=lambda job: job.minutes)


def is_done(job: Job, path: pathlib.Path) -> bool:
    """Return whether a file has the result of a job, with the code of now."""
    try:
        content = json.loads(path.read_text())
    except (OSError, ValueError):
        return False
    words = ['tools/bench.sh', job.benchmark, *shlex.split(job.arguments)]
    return content.get('command') == shlex.join(words) and not (
        provenance.changed(code(job), content.get('code', {}))
    )


def code(job: Job) -> tuple[str, ...]:
    """Return the paths of the code that decides the figures of a job."""
    return _catalogue.measured(job.benchmark)


def work_directory(job: Job) -> pathlib.Path:
    """Return the directory in which a job runs.

    A benchmark that continues its own runs has files there. Code that has
    changed has another directory, so that no old measurement counts for it.
    """
    contents = [provenance.content(path) for path in code(job)]
    digest = hashlib.sha256(' '.join(contents).encode()).hexdigest()
    return STATE / f'{job.name}-{digest[:12]}'


def left(seconds: float) -> str:
    """Return a time as text: 2 h 05 min, or 5 min."""
    hours, minutes = divmod(round(seconds / 60), 60)
    return f'{hours} h {minutes:02} min' if hours else f'{minutes} min'


def measure(job: Job, path: pathlib.Path, timeout: float) -> str:
    """Run a benchmark, and return why it has no result, '' if it has one.

    One whose goals are missed has a result.
    """
    directory = work_directory(job)
    directory.mkdir(parents=True, exist_ok=True)
    log = directory / 'log'
    command = [
        sys.executable,
        '-W', 'ignore',
        str(provenance.TOP / 'benchmarks' / f'{job.benchmark}.py'),
        f'--json={path}',
        *shlex.split(job.arguments),
    ]  # fmt: skip
    began = time.time()
    with log.open('a') as stream:
        # a group of its own, so that all that it starts can be ended
        process = subprocess.Popen(
            command,
            cwd=directory,
            stdout=stream,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            status = process.wait(timeout)
        except subprocess.TimeoutExpired:
            end(process)
            return f'not finished after {left(timeout)}; see {log}'
        except BaseException:
            end(process)
            raise
    if path.exists() and path.stat().st_mtime >= began:
        return ''
    return f'exit status {status}; see {log}'


def end(process: subprocess.Popen[bytes]) -> None:
    """End a benchmark, which may take down what it has started."""
    os.killpg(process.pid, signal.SIGTERM)
    try:
        process.wait(_END_S)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def run(
    todo: collections.abc.Sequence[Job],
    directory: pathlib.Path,
    hours: float,
    say: collections.abc.Callable[[str], None],
) -> dict[str, str]:
    """Measure, and return {name: problem} of results that are not there."""
    deadline = time.monotonic() + hours * 3600
    problems = {}
    for number, job in enumerate(todo, 1):
        rest = sum(other.minutes for other in todo[number - 1 :]) * 60
        now = datetime.datetime.now().strftime('%H:%M')
        say(
            f'{now} [{number}/{len(todo)}] {job.name}: about '
            f'{left(job.minutes * 60)}; {left(rest)} left for all'
        )
        remaining = deadline - time.monotonic()
        if remaining <= 0:
            problems[job.name] = f'not begun within {hours:g} h'
            continue
        allowed = (job.minutes * _SLACK + _SLACK_MINUTES) * 60.0
        path = directory / f'{job.name}.json'
        problem = measure(job, path, min(allowed, remaining))
        if problem:
            problems[job.name] = problem
            say(f'{job.name}: {problem}')
    return problems


def main() -> int:
    parser = argparse.ArgumentParser(
        prog='tools/bench.sh', description=__doc__
    )
    parser.add_argument('which', choices=sorted(HOURS))
    parser.add_argument(
        '--list', action='store_true', help='only say what would be measured'
    )
    parser.add_argument(
        '--hours', type=float, help='at the most (default: 24, quick 2)'
    )
    args = parser.parse_args()
    quick = args.which == 'quick'
    directory = STATE / 'quick' if quick else _results.DIRECTORY
    directory.mkdir(parents=True, exist_ok=True)
    every = jobs(quick)
    todo = [
        job
        for job in every
        if not is_done(job, directory / f'{job.name}.json')
    ]
    print(
        f'{len(every) - len(todo)} of {len(every)} results are there, '
        f'{left(sum(job.minutes for job in todo) * 60)} for the others',
        flush=True,
    )
    if args.list:
        for job in todo:
            print(f'{job.name}: {job.benchmark} {job.arguments}'.rstrip())
        return 0
    problems = run(
        todo,
        directory,
        args.hours or HOURS[args.which],
        lambda text: print(text, flush=True),
    )
    for name, problem in problems.items():
        print(f'{name}: {problem}', file=sys.stderr)
    return 1 if problems else 0


if __name__ == '__main__':
    sys.exit(main())
