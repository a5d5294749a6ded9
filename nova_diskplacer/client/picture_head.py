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

"""Draws what is above the hosts of the picture: sums, findings and legend."""

import collections
import collections.abc
import html

from nova_diskplacer.client import facts as facts_
from nova_diskplacer.client import markup
from nova_diskplacer.client import vdisk_map

# Up to so many findings are shown at once, more of them on a click.
_OPEN = 8

_KINDS = {
    'health': 'Disks that are not offered',
    'silent': 'Hosts whose agent did not report',
    'pending': 'Claims without vdisks',
    'moving': 'Vdisks whose data is on a host that is down',
}

# Each has the markup of what it explains.
_LEGEND = (
    ('vdisk ok', 'vdisk: a colour for each server of a host'),
    ('vdisk pending', 'claimed, no vdisk yet'),
    ('vdisk moving', 'data still on another host'),
    ('vdisk unclaimed', 'vdisk without a claim'),
    ('claimed', 'claimed, by nobody shown'),
    ('reserved', 'reserved for other vdisks'),
    ('free', 'free'),
)
_DISKS = (
    ('disk full', 'full'),
    ('disk pressed', 'under pressure'),
    ('disk idle', 'idle'),
    ('disk unhealthy', 'not offered'),
)

Findings = collections.abc.Sequence[vdisk_map.Finding]


def summary(
    disks: collections.abc.Collection[facts_.Disk],
    hosts: int,
    rows: collections.abc.Iterable[vdisk_map.Entry],
) -> str:
    """Return the sums of all disks."""
    figures = {
        'hosts': hosts,
        'disks': len(disks),
        'vdisks': sum(1 for row in rows if row.row.actual_disk),
        'GiB': sum(disk.total_gb for disk in disks),
        'GiB claimed': sum(disk.claimed_gb for disk in disks),
        'GiB free': sum(disk.free_gb for disk in disks),
    }
    text = ', '.join(f'{figure} {name}' for name, figure in figures.items())
    return markup.tag('p', text, id='summary')


def legend() -> str:
    """Return what the colours and the borders stand for."""
    items = [
        markup.tag(
            'li', markup.tag('span', '', class_=class_) + html.escape(text)
        )
        for class_, text in _LEGEND
    ]
    items += [
        markup.tag(
            'li',
            markup.tag(
                'span',
                markup.tag('span', '', class_='name')
                + markup.tag('span', '', class_='bar'),
                class_=class_,
            )
            + html.escape(text),
        )
        for class_, text in _DISKS
    ]
    return markup.tag('ul', ''.join(items), id='legend')


def findings(
    listed: Findings, names: collections.abc.Mapping[str, str]
) -> str:
    """Return the findings by kind.

    :param names: of the subjects, by UUID.
    """
    by_kind = collections.defaultdict(list)
    for finding in listed:
        by_kind[finding.kind].append(finding)
    opened = '' if len(listed) <= _OPEN else None
    groups = (
        markup.tag(
            'details',
            markup.tag(
                'summary',
                f'{_KINDS.get(kind, html.escape(kind))}: {len(of_kind)}',
            )
            + markup.tag(
                'ul', ''.join(_finding(finding, names) for finding in of_kind)
            ),
            open=opened,
        )
        for kind, of_kind in by_kind.items()
    )
    return markup.tag('div', ''.join(groups), id='findings')


def _finding(
    finding: vdisk_map.Finding, names: collections.abc.Mapping[str, str]
) -> str:
    words = [facts_.short_host(finding.host)]
    if finding.subject != finding.host:
        words.append(names.get(finding.subject) or finding.subject)
    button = markup.tag(
        'button',
        html.escape(' '.join(words)),
        type='button',
        title=finding.subject,
        data_subject=finding.subject,
    )
    return markup.tag(
        'li', f'{button} {html.escape(finding.text)}', data_kind=finding.kind
    )
