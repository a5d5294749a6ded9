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

"""Reads the health of disks (SMART) with smartctl."""

import dataclasses
import json
import os
import re
import subprocess
from typing import Any

from nova_diskplacer import exception
from nova_diskplacer.host import sysfs

_COMMAND = (
    'smartctl',
    '--json',
    '--info',
    '--health',
    '--attributes',
    '--log=error',
    '--nocheck=standby',
)

# Seconds; a failing disk may answer slowly.
TIMEOUT = 60

# ATA attributes that count errors and have the same meaning for most vendors;
# others, such as the rate of raw read errors, differ.
_ATTRIBUTES = (5, 187, 188, 197, 198, 199)

# Commands that timed out, in the lowest of three words of 16 bits. The others
# count slow ones; smartctl separates them for some models only, lowest last.
_TIMEOUTS = 188

# Bits of smartctl's exit status: invalid arguments, and a device that cannot
# be opened or is in standby.
_UNREAD = 0b11


@dataclasses.dataclass(frozen=True)
class Report:
    """The health of a disk: ``errors`` are counters that should not grow.

    ``temperature`` is in degrees Celsius, None if unknown; ``passed`` is false
    if the disk reports that it is failing.
    """

    serial: str
    passed: bool
    temperature: int | None
    errors: dict[str, int]


def read(device: str) -> Report | None:
    """Return a disk's report; None for a disk in standby, which stays in it.

    :raises DiskError: the disk has no SMART, like virtual disks and disks
        behind most RAID controllers, or smartctl lacks the right to query it.
    """
    try:
        done = subprocess.run(  # noqa: S603
            [*_COMMAND, f'/dev/{device}'],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=TIMEOUT,
            env={**os.environ, 'LC_ALL': 'C'},
        )
        fields = json.loads(done.stdout)
        if done.returncode & _UNREAD:
            messages = fields['smartctl'].get('messages', [])
            if not messages:
                # in standby
                return None
            reason = '; '.join(message['string'] for message in messages)
            raise exception.DiskError(
                f'SMART of {device} cannot be read: {reason}'
            )
        report = parse(fields)
        if not {'smart_status', 'temperature'} & fields.keys():
            # the SCSI layer refuses ATA requests without CAP_SYS_RAWIO
            raise exception.DiskError(
                f'SMART of {device}: the disk does not report its health; '
                'either it has no SMART, or smartctl lacks the right to query '
                'it, for SATA disks CAP_SYS_RAWIO'
            )
        return report
    except subprocess.TimeoutExpired as error:
        raise exception.DiskError(
            f'SMART of {device}: no answer in {TIMEOUT} seconds'
        ) from error
    except OSError as error:
        raise exception.DiskError(
            f'SMART of {device}: smartctl: {error.strerror}'
        ) from error
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        raise exception.DiskError(
            f'SMART of {device}: smartctl 7.0 or newer is needed ({error!r})'
        ) from error


def read_kernel_counter(device: str, sys: str = sysfs.SYS) -> Report:
    """Return the kernel's error counter of a SCSI or SATA disk.

    It includes failed requests of smartctl.
    """
    path = f'{sys}/class/block/{device}/device/ioerr_cnt'
    try:
        with open(path, encoding='ascii') as stream:
            errors = {'failed requests': int(stream.read(), 16)}
    except (OSError, ValueError):
        errors = {}
    return Report('', passed=True, temperature=None, errors=errors)


def parse(fields: dict[str, Any]) -> Report:
    """Return the report from smartctl's JSON."""
    nvme = fields.get('nvme_smart_health_information_log', {})
    table = fields.get('ata_smart_attributes', {}).get('table', [])
    errors = {
        f'{row["name"]} (SMART {row["id"]})': _count(row)
        for row in table
        if row['id'] in _ATTRIBUTES
    }
    if 'media_errors' in nvme:
        errors['media errors'] = nvme['media_errors']
    if 'scsi_grown_defect_list' in fields:
        errors['grown defects'] = fields['scsi_grown_defect_list']
    for what, counts in fields.get('scsi_error_counter_log', {}).items():
        if 'total_uncorrected_errors' in counts:
            errors[f'uncorrected {what} errors'] = counts[
                'total_uncorrected_errors'
            ]
    return Report(
        serial=fields.get('serial_number', ''),
        passed=fields.get('smart_status', {}).get('passed', True),
        temperature=fields.get('temperature', {}).get('current'),
        errors=errors,
    )


def _count(row: dict[str, Any]) -> int:
    """Return the number that an ATA attribute counts.

    It is the first one that smartctl prints: some vendors store other values
    in the upper bytes.
    """
    raw = row['raw']
    if row['id'] == _TIMEOUTS:
        return int(raw['value']) & 0xFFFF
    printed = re.match(r'\d+(?=\s|$)', raw.get('string', ''))
    return int(printed[0] if printed else raw['value'] & 0xFFFFFFFF)
