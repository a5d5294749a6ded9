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
import sys

import _contention_guest as guest


def scenes(
    settings: guest.Settings,
) -> dict[str, dict[str, list[guest.Settings | None]]]:
    """Return what fio tells of each server, None of one without a load."""
    uuids = settings['uuids']
    arguments = {'light': guest.rate(settings), 'heavy': guest.scan(settings)}
    found: dict[str, dict[str, list[guest.Settings | None]]] = {
        device: {} for device in uuids
    }
    servers = range(len(settings['projects']))
    with guest.cgroups(uuids, len(servers)) as homes:
        for name, scene in settings['scenes'].items():
            limit = (
                '--time_based',
                f'--runtime={scene["seconds"]}',
                f'--ramp_time={scene["ramp"]}',
            )
            pool = concurrent.futures.ThreadPoolExecutor(
                len(uuids) * len(servers)
            )
            with guest.running(settings, {}, scene['agent']), pool:
                futures = {
                    (device, server): pool.submit(
                        guest.fio,
                        guest.task_file(uuid, server),
                        homes[device][server],
                        *arguments[load],
                        *limit,
                    )
                    for device, uuid in uuids.items()
                    for server, load in enumerate(scene['loads'])
                    if load
                }
            for device in uuids:
                found[device][name] = [
                    guest.told(futures[device, server].result())
                    if (device, server) in futures
                    else None
                    for server in servers
                ]
    return found


def main() -> None:
    print(json.dumps(scenes(json.loads(sys.argv[1]))))


if __name__ == '__main__':
    main()
