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

"""Runs in the guest: servers of two projects on each of some disks.

``python _project_shares_guest.py JSON`` prints, by device and scene, what each
server of it gets.
"""

import concurrent.futures
import json
import pathlib
import sys
import time
import typing

import _contention_guest as guest

# Seconds by which servers begin after each other at most.
_SKEW = 15

Place = tuple[str, int]


def scenes(
    settings: guest.Settings,
) -> dict[str, dict[str, list[guest.Settings | None]]]:
    """Return what each server gets, None of one without a load."""
    uuids = settings['uuids']
    found: dict[str, dict[str, list[guest.Settings | None]]] = {
        device: {} for device in uuids
    }
    servers = range(len(settings['projects']))
    with guest.cgroups(uuids, len(servers)) as homes:
        for name, scene in settings['scenes'].items():
            with guest.running(settings, {}, scene['agent']):
                got = play(settings, homes, scene)
            for device in uuids:
                found[device][name] = [
                    got.get((device, server)) for server in servers
                ]
    return found


def play(
    settings: guest.Settings, homes: guest.Homes, scene: guest.Settings
) -> dict[Place, guest.Settings]:
    """Have servers read; return what each gets, by device and number.

    The throughput is that of the same seconds for all, by the kernel's
    counters. The latencies are those of all seconds after the ramp.

    :raises RuntimeError: one has not begun.
    """
    loads = {'light': guest.rate(settings), 'heavy': guest.scan(settings)}
    ramp, seconds = scene['ramp'], scene['seconds']
    places = {
        (device, server): load
        for device in homes
        for server, load in enumerate(scene['loads'])
        if load
    }

    def read_bytes() -> dict[Place, int]:
        return {
            (device, server): rbytes(
                homes[device][server], guest.number(device)
            )
            for device, server in places
        }

    before = read_bytes()
    with concurrent.futures.ThreadPoolExecutor(len(places)) as pool:
        futures = {
            (device, server): pool.submit(
                guest.fio,
                guest.task_file(settings['uuids'][device], server),
                homes[device][server],
                *loads[load],
                '--time_based',
                f'--runtime={seconds + _SKEW}',
                f'--ramp_time={ramp}',
            )
            for (device, server), load in places.items()
        }
        wait_begun(before, read_bytes)
        time.sleep(ramp)
        begin, began = read_bytes(), time.monotonic()
        time.sleep(seconds)
        end, took = read_bytes(), time.monotonic() - began
        return {
            place: {
                **guest.told(future.result()),
                'mbps': (end[place] - begin[place]) / took / 1e6,
            }
            for place, future in futures.items()
        }


def wait_begun(
    before: dict[Place, int],
    read_bytes: typing.Callable[[], dict[Place, int]],
) -> None:
    """Wait until all have read since.

    :raises RuntimeError: one has not.
    """
    deadline = time.monotonic() + _SKEW
    while late := [
        place for place, one in read_bytes().items() if one == before[place]
    ]:
        if time.monotonic() > deadline:
            raise RuntimeError(f'not begun after {_SKEW} s: {late}')
        time.sleep(0.2)


def rbytes(cgroup: pathlib.Path, number: str) -> int:
    """Return the bytes that a cgroup has read of a device."""
    for line in (cgroup / 'io.stat').read_text().splitlines():
        device, *fields = line.split()
        if device == number:
            return int(dict(one.split('=') for one in fields)['rbytes'])
    return 0


def main() -> None:
    print(json.dumps(scenes(json.loads(sys.argv[1]))))


if __name__ == '__main__':
    main()
