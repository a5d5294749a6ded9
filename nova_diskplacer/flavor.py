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

"""The ``diskplacer:`` extra specs of a flavor."""

import collections.abc
import contextlib
import dataclasses
import re
import types
import typing

from nova_diskplacer import constants
from nova_diskplacer import mapping

if typing.TYPE_CHECKING:
    from nova_diskplacer.profiles import catalogue

NAMESPACE = 'diskplacer:'

ROUND_ROBIN = 'round_robin'
STRIPED = mapping.STRIPED

HDD = constants.HDD
SSD = constants.SSD
ANY = 'any'
MEDIA = (*constants.MEDIA, ANY)

NONE = 'none'
PREFERRED = 'preferred'
REQUIRED = 'required'
NUMA = (NONE, PREFERRED, REQUIRED)

VOLUME_TYPE = 'volume_type'
PROFILE = 'profile'
IO_TIER = 'io_tier'
STRIPE_DISKS = 'stripe_disks'
GUEST = 'guest'

GUESTS = ('hadoop', 'spark', 'kafka', 'cassandra', 'plain', NONE)

# A flavor with these alone asks for no vdisks.
_OF_SERVER = frozenset((PROFILE, IO_TIER, VOLUME_TYPE, GUEST))

#: An empty catalogue of profiles.
NO_PROFILES: collections.abc.Mapping[str, 'catalogue.Profile'] = (
    types.MappingProxyType({})
)


@dataclasses.dataclass(frozen=True)
class Spec:
    """An extra spec: one of ``choices``, a name, or an integer in a range.

    ``pattern`` is the regular expression of names.
    """

    description: str
    choices: tuple[str, ...] = ()
    pattern: str = ''
    minimum: int = 1
    maximum: int = 1048576

    def value(self, name: str, text: str) -> int | str:
        """Return the value of an extra spec.

        :raises ValueError: ``text`` is not allowed; the message has the key,
            the value and the allowed values.
        """
        where = f'{NAMESPACE}{name}={text}'
        if self.choices:
            if text not in self.choices:
                allowed = ', '.join(self.choices)
                raise ValueError(f'{where} is not one of: {allowed}')
            return text
        if self.pattern:
            if not re.fullmatch(self.pattern, text):
                raise ValueError(f'{where} does not match {self.pattern}')
            return text
        with contextlib.suppress(ValueError):
            number = int(text)
            if self.minimum <= number <= self.maximum:
                return number
        raise ValueError(
            f'{where} is not an integer from {self.minimum} to {self.maximum}'
        )


SPECS = {
    'vdisks': Spec(
        'Number of vdisks for which a server of this flavor claims space on '
        'local disks of its host. Requires ``diskplacer:vdisk_gb``.',
        maximum=64,
    ),
    'vdisk_gb': Spec(
        'Size of each vdisk in GiB. Requires ``diskplacer:vdisks``.'
    ),
    'mapping': Spec(
        'Mapping of the vdisks of a server to the disks of its host: '
        '``round_robin`` (the default) spreads them over distinct disks, '
        '``consolidated`` puts them on as few disks as hold them, ``striped`` '
        'stripes each over ``diskplacer:stripe_disks`` disks. Others may be '
        'installed.',
        choices=mapping.names(),
    ),
    'media': Spec(
        'Medium of the disks: rotational (``hdd``), solid state '
        '(``ssd``) or ``any`` (the default).',
        choices=MEDIA,
    ),
    'vdisk_mbps': Spec(
        'Throughput in MB/s (10^6 bytes per second) to claim on the disk '
        'for each vdisk. A striped vdisk claims an equal part on each of its '
        'disks. Unset: none is claimed.'
    ),
    STRIPE_DISKS: Spec(
        'Number of disks over which each vdisk is striped. Required with '
        '``diskplacer:mapping=striped``, refused with any other mapping. Each '
        'disk, an LVM disk, holds an equal part of the vdisk, rounded up to '
        'a GiB. The vdisk is lost with any one of them.',
        minimum=2,
        maximum=constants.MAX_STRIPE_DISKS,
    ),
    'vdisks_per_disk': Spec(
        'Maximum number of vdisks of a server that ``round_robin`` puts on '
        'one disk (default 1). Above 1 it spreads as evenly as possible. '
        'The same applies to ``striped``, which counts a vdisk on each of its '
        'disks. Ignored by ``consolidated``.',
        maximum=64,
    ),
    'numa': Spec(
        'Placement of the disks on the NUMA node of the vCPUs: '
        '``required`` rejects a host that cannot align them, ``preferred`` '
        'weighs it down, ``none`` (the default) ignores NUMA.',
        choices=NUMA,
    ),
    VOLUME_TYPE: Spec(
        'Name of the volume type of the vdisks. The filter of nova-api gives '
        'it to the volumes that it adds to a request, and counts volumes of '
        'this type only. Unset: ``[diskplacer_api] volume_type``.',
        pattern=r'\S(.{0,253}\S)?',
    ),
    PROFILE: Spec(
        'Profile of the workload, by its name or an alias: it fills the keys '
        'that the flavor leaves unset, and the agent tunes the disks by it. '
        '``diskplacer-manage profile list`` lists them.',
        pattern='[a-z][a-z0-9_]*',
    ),
    IO_TIER: Spec(
        'Usage tier of the server, by its name: it bounds the class, and so '
        "the weight, of the server's I/O on each disk. ``[diskplacer_weights] "
        'tiers`` on the compute nodes defines them.',
        pattern='[A-Za-z0-9_-]+',
    ),
    GUEST: Spec(
        'Framework for which cloud-init in the server formats and mounts the '
        'vdisks, without user data, where ``diskplacer-vendordata`` runs. '
        '``plain`` formats and mounts only; ``none`` (the default) leaves the '
        'vdisks blank.',
        choices=GUESTS,
    ),
}


@dataclasses.dataclass(frozen=True)
class VDiskRequest:
    """The vdisks of one server.

    ``vdisk_gb`` is the size of each in GiB, ``vdisk_mbps`` the throughput
    claimed for each in MB/s (0: none). ``cache_mode`` is the cache mode that
    the host must have, None if any will do. ``profile`` is a profile's name,
    never an alias. ``volume_type`` is a name, None if the flavor has none.
    ``guest`` is one of ``GUESTS``. A vdisk is striped over ``stripe_disks``
    disks: it has a *piece* on each of them. A vdisk that is not striped is one
    piece.
    """

    vdisks: int
    vdisk_gb: int
    mapping: str = ROUND_ROBIN
    media: str = ANY
    vdisk_mbps: int = 0
    vdisks_per_disk: int = 1
    numa: str = NONE
    cache_mode: str | None = None
    profile: str | None = None
    volume_type: str | None = None
    guest: str = NONE
    stripe_disks: int = 1

    @property
    def pieces(self) -> int:
        """Number of the pieces of all vdisks."""
        return self.vdisks * self.stripe_disks

    @property
    def piece_gb(self) -> int:
        """GiB of each piece, rounded up."""
        return -(-self.vdisk_gb // self.stripe_disks)

    @property
    def piece_mbps(self) -> int:
        """MB/s that are claimed for each piece, rounded up."""
        return -(-self.vdisk_mbps // self.stripe_disks)


def parse(
    extra_specs: collections.abc.Mapping[str, str],
    profiles: collections.abc.Mapping[str, 'catalogue.Profile'] = NO_PROFILES,
) -> VDiskRequest | None:
    """Return the vdisks that a flavor's extra specs ask for, None for none.

    A tier, a volume type or a framework in the guest asks for no vdisks, nor
    does a profile without their number and size: they apply to volumes that
    are attached later.

    :param profiles: the catalogue in which ``diskplacer:profile`` is found.
    :raises ValueError: a key or the profile is unknown, a value is not
        allowed, one of ``vdisks`` and ``vdisk_gb`` is missing, or one of
        ``mapping=striped`` and ``stripe_disks`` is without the other. Nova's
        API refuses bad keys and values already, but flavors may be older than
        the validators.
    """
    own = _without_namespace(extra_specs)
    if not own:
        return None
    for name in own:
        if name not in SPECS:
            known = ', '.join(NAMESPACE + key for key in sorted(SPECS))
            raise ValueError(f'{NAMESPACE}{name} is not one of: {known}')
    profile = None
    wanted = own
    if PROFILE in own:
        if own[PROFILE] not in profiles:
            known = ', '.join(sorted(profiles))
            raise ValueError(
                f'{NAMESPACE}{PROFILE}={own[PROFILE]} is not one of: {known}'
            )
        profile = profiles[own[PROFILE]]
        wanted = {**_without_namespace(profile.specs), **own}
    missing = [name for name in ('vdisks', 'vdisk_gb') if name not in wanted]
    values: dict[str, typing.Any] = {
        name: SPECS[name].value(name, text) for name, text in wanted.items()
    }
    if own.keys() <= _OF_SERVER and len(missing) == 2:
        return None
    for name in missing:
        given = ', '.join(NAMESPACE + key for key in sorted(own))
        raise ValueError(
            f'{NAMESPACE}{name} is required with {given}; Nova accepts the '
            'flavor without, because it checks each extra spec by itself'
        )
    _check_stripe(values)
    values.pop(IO_TIER, None)
    if profile:
        values[PROFILE] = profile.name
        values['cache_mode'] = profile.cache_mode
    return VDiskRequest(**values)


def _check_stripe(values: collections.abc.Mapping[str, typing.Any]) -> None:
    """Check that a flavor has both extra specs of striped vdisks, or none.

    :raises ValueError: it has one of them.
    """
    policy = values.get('mapping', ROUND_ROBIN)
    if policy == STRIPED and STRIPE_DISKS not in values:
        spec = SPECS[STRIPE_DISKS]
        raise ValueError(
            f'{NAMESPACE}mapping={STRIPED} requires '
            f'{NAMESPACE}{STRIPE_DISKS}, an integer from {spec.minimum} to '
            f'{spec.maximum}'
        )
    if policy != STRIPED and STRIPE_DISKS in values:
        raise ValueError(
            f'{NAMESPACE}{STRIPE_DISKS}={values[STRIPE_DISKS]} is allowed '
            f'only with {NAMESPACE}mapping={STRIPED}, not with '
            f'{NAMESPACE}mapping={policy}'
        )


def _without_namespace(
    extra_specs: collections.abc.Mapping[str, str],
) -> dict[str, str]:
    return {
        key.removeprefix(NAMESPACE): value
        for key, value in extra_specs.items()
        if key.startswith(NAMESPACE)
    }
