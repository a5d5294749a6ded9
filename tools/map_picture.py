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

"""Draw the map of an example: doc/source/_static/map.png.

    python -m tools.map_picture FILE.html [FILE.png]

The PNG takes Chromium.
"""

import argparse
import collections
import datetime
import itertools
import uuid

from nova_diskplacer import constants
from nova_diskplacer.client import facts
from nova_diskplacer.client import vdisk_map
from nova_diskplacer.client import views
from tools import browser

NOW = datetime.datetime(2026, 11, 2, 8, 30, tzinfo=datetime.UTC)

#: Servers of the example: name, vdisks, GiB of each.
_KINDS = (
    ('hadoop-worker', 4, 250),
    ('kafka', 2, 400),
    ('cassandra', 3, 200),
    ('spark', 4, 100),
)

#: Kilobytes that the documentation has room for are few: a small picture.
_SIZE = 1000, 700


def example(hosts: int, disks: int = 6) -> facts.Facts:
    """Return the facts of a cloud, always the same.

    Every fifth host has a disk that is hung and one under pressure, every
    seventh a claim without vdisks, a vdisk on another disk than claimed and
    one without a claim, and the last one does not report.
    """
    found = {}
    claims: dict[str, dict[str, int]] = {}
    vdisks = []
    servers = {}
    number = itertools.count(1)
    for place in range(hosts):
        host = f'compute-{place + 1}.example.org'
        its = [_uuid('disk', host, position) for position in range(disks)]
        used = collections.Counter[str]()
        for turn in range(1 + place % 4):
            kind, count, gb = _KINDS[(place + turn) % len(_KINDS)]
            server = _uuid('server', host, turn)
            servers[server] = facts.Server(
                server,
                f'{kind}-{next(number)}',
                'ACTIVE',
                NOW - datetime.timedelta(days=1 + turn),
            )
            chosen = sorted(its[1:], key=lambda disk: used[disk])[:count]
            for position, disk in enumerate(chosen):
                claims.setdefault(disk, {})[server] = gb
                used[disk] += gb
                if place % 7 == 1 and turn == 0:
                    # one that forgot its volumes
                    continue
                vdisks.append(
                    facts.VDisk(
                        _uuid('volume', server, position),
                        its[-1]
                        if place % 7 == 2 and turn == position == 0
                        else disk,
                        gb,
                        server,
                        device=f'vd{"bcdefghijk"[position]}',
                    )
                )
        extra = 150 if place % 7 == 4 else 0
        if extra:
            vdisks.append(
                facts.VDisk(_uuid('extra', host), its[1], extra, server)
            )
        for position, disk in enumerate(its):
            unhealthy = place % 5 == 3 and position == 0
            full = place % 5 == 1 and position == disks - 1
            found[disk] = facts.Disk(
                disk,
                host,
                medium='ssd' if position == 0 else 'hdd',
                health=constants.HUNG if unhealthy else constants.OK,
                total_gb=1000 if full else 500 if position == 0 else 1000,
                reserved_gb=1000 - used[disk]
                if full
                else extra * (position == 1),
                claimed_gb=used[disk],
                pressure=85
                if place % 5 == 2 and position == 2
                else 3 * (place + position) % 30,
            )
    return facts.Facts(
        found,
        claims,
        vdisks,
        servers,
        (f'compute-{hosts}.example.org',),
    )


def _uuid(*words: object) -> str:
    return str(uuid.uuid5(uuid.NAMESPACE_DNS, ' '.join(map(str, words))))


def draw(path: str, hosts: int) -> facts.Facts:
    """Draw the example into an HTML file and return its facts."""
    found = example(hosts)
    rows = vdisk_map.entries(found)
    views.write_html(path, found, rows, vdisk_map.findings(found, rows, NOW))
    return found


def main() -> None:
    """Draw the example of the documentation."""
    parser = argparse.ArgumentParser(description=__doc__.partition('\n')[0])
    parser.add_argument('html')
    parser.add_argument('png', nargs='?')
    parser.add_argument('--hosts', type=int, default=6)
    args = parser.parse_args()
    draw(args.html, args.hosts)
    if args.png:
        with browser.open_page(*_SIZE) as page:
            page.load(args.html)
            page.screenshot(args.png)


if __name__ == '__main__':
    main()
