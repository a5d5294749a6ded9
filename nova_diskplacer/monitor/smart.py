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

"""What a disk says of its own health (SMART), by smartctl."""

import dataclasses
import json
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

# A disk that is failing may take its time.
TIMEOUT = 60

# ATA attributes that count errors. They have the same meaning with most
# makers; others, such as the rate of raw read errors, do not.
_ATTRIBUTES = (5, 187, 188, 197, 198, 199)

# Bits of smartctl's exit status: bad arguments, and a device that cannot be
# opened or that sleeps.
_UNREAD = 0b11


@dataclasses.dataclass(frozen=True)
class Report:
    """What a disk says: ``errors`` are counters that should not grow.

    ``temperature`` is in degrees Celsius, None if it does not say;
    ``passed`` is false if it says that it is failing.
    """

    serial: str
    passed: bool
    temperature: int | None
    errors: dict[str, int]


def read(device: str) -> Report | None:
    """Return what a disk says; None if it sleeps, which is not disturbed.

    :param device: the name of the device.
    :raises DiskError: it says nothing, as virtual disks and those behind most
        RAID controllers do, or smartctl may not ask it.
    """
    try:
        done = subprocess.run(  # noqa: S603
            [*_COMMAND, f'/dev/{device}'],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=TIMEOUT,
        )
        fields = json.loads(done.stdout)
        if done.returncode & _UNREAD:
            _unread(device, fields)
            return None
        report = parse(fields)
        if not {'smart_status', 'temperature'} & fields.keys():
            # which is all that there is of a SATA disk behind a SCSI layer
            # that keeps requests of ATA from those without the right
            raise exception.DiskError(
                f'SMART of {device}: it says nothing of its health; either '
                'it has no SMART, or smartctl may not ask it, which takes '
                'CAP_SYS_RAWIO with SATA disks'
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
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise exception.DiskError(
            f'SMART of {device}: smartctl 7.0 or newer is needed ({error!r})'
        ) from error


def read_kernel_counter(device: str, sys: str = sysfs.SYS) -> Report:
    """Return what the kernel itself has counted of a SCSI or SATA disk.

    It also counts what smartctl asks in vain.
    """
    path = f'{sys}/class/block/{device}/device/ioerr_cnt'
    try:
        with open(path, encoding='ascii') as stream:
            errors = {'failed requests': int(stream.read(), 16)}
    except (OSError, ValueError):
        errors = {}
    return Report('', passed=True, temperature=None, errors=errors)


def parse(fields: dict[str, Any]) -> Report:
    """Return what smartctl has printed as JSON."""
    nvme = fields.get('nvme_smart_health_information_log', {})
    table = fields.get('ata_smart_attributes', {}).get('table', [])
    errors = {
        f'{row["name"]} (SMART {row["id"]})': row['raw']['value']
        for row in table
        # makers keep other figures in the upper bytes
        if row['id'] in _ATTRIBUTES
    }
    errors = {name: value & 0xFFFFFFFF for name, value in errors.items()}
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


def _unread(device: str, fields: dict[str, Any]) -> None:
    """Raise why a device was not read; one that sleeps has no reason."""
    messages = fields['smartctl'].get('messages', [])
    if messages:
        said = '; '.join(message['string'] for message in messages)
        raise exception.DiskError(f'SMART of {device} cannot be read: {said}')
