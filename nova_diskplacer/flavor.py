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

from oslo_utils import uuidutils

from nova_diskplacer import constants
from nova_diskplacer import mapping
from nova_diskplacer.mapping import stripe_disks

NAMESPACE = 'diskplacer:'

ROUND_ROBIN = 'round_robin'
STRIPED = mapping.STRIPED
ELASTIC = mapping.ELASTIC

HDD = constants.HDD
SSD = constants.SSD
ANY = 'any'
MEDIA = (*constants.MEDIA, ANY)

NONE = 'none'
PREFERRED = 'preferred'
REQUIRED = 'required'
NUMA = (NONE, PREFERRED, REQUIRED)

BLANK = 'blank'

VOLUME_TYPE = 'volume_type'
PROFILE = 'profile'
IO_TIER = 'io_tier'
STRIPE_DISKS = 'stripe_disks'
GUEST = 'guest'
ON_HOST_LOSS = 'on_host_loss'

GUESTS = ('hadoop', 'spark', 'kafka', 'cassandra', 'plain', NONE)

# A flavor with these alone asks for no vdisks.
_OF_SERVER = frozenset((PROFILE, IO_TIER, VOLUME_TYPE, GUEST))


class Profile(typing.Protocol):
    """The settings that the extra specs of a flavor take from a profile.

    ``specs`` are the ``diskplacer:`` extra specs that a flavor leaves unset.
    """

    @property
    def name(self) -> str: ...

    @property
    def specs(self) -> collections.abc.Mapping[str, str]: ...

    @property
    def cache_mode(self) -> str | None: ...


Profiles = collections.abc.Mapping[str, Profile]

#: An empty catalogue of profiles.
NO_PROFILES: Profiles = types.MappingProxyType({})


@dataclasses.dataclass(frozen=True)
class Spec:
    """An extra spec: one of ``choices``, a name, or an integer in a range.

    ``pattern`` is the regular expression of names, and ``allowed`` says in
    words what it matches.
    """

    description: str
    choices: tuple[str, ...] = ()
    pattern: str = ''
    allowed: str = ''
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
                raise ValueError(
                    f'{where} is not {self.allowed}'
                    if self.allowed
                    else f'{where} does not match {self.pattern}'
                )
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
        'stripes each over ``diskplacer:stripe_disks`` disks, ``elastic`` '
        'stripes each over a number of disks that changes with its load. '
        'Others may be installed.',
        choices=mapping.names(),
    ),
    'media': Spec(
        'Medium of the disks: rotational (``hdd``), solid state '
        '(``ssd``) or ``any`` (the default). Set it where a host has disks of '
        'both, to the ``vdisk_media`` of the backends of the volume type: '
        'otherwise a server may claim disks that its volumes cannot use. '
        'nova-api refuses such a flavor.',
        choices=MEDIA,
    ),
    'vdisk_mbps': Spec(
        'Throughput in MB/s (10^6 bytes per second) to claim on the disk '
        'for each vdisk. A striped vdisk claims an equal part on each of its '
        'disks. Unset: none is claimed.'
    ),
    STRIPE_DISKS: Spec(
        'Disks over which each vdisk is striped: with '
        '``diskplacer:mapping=striped`` their number, from 2 to 6, with '
        '``elastic`` the least and the largest number, as in ``1-4``. The '
        'largest is at most 6 and a multiple of the least, for which a server '
        'claims space. Required with these mappings, refused with any other '
        'one. The vdisk has as many equal parts as disks at most, each '
        'rounded up to a GiB, and its disks, LVM disks, share them. It is '
        'lost with any one of them.',
        pattern=stripe_disks.PATTERN,
        allowed=stripe_disks.ALLOWED,
    ),
    'vdisks_per_disk': Spec(
        'Maximum number of vdisks of a server that ``round_robin`` puts on '
        'one disk (default 1). Above 1 it spreads as evenly as possible. '
        'The same applies to ``striped``, which counts a vdisk on each of its '
        'disks, and to ``elastic`` with a least number above 1. Ignored by '
        '``consolidated``.',
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
        'it to the volumes that it adds to a request, and volumes of other '
        'types are no vdisks. Unset: ``[diskplacer_api] volume_type``.',
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
    ON_HOST_LOSS: Spec(
        'The vdisks of a server whose host is lost for good: ``blank`` lets '
        'an administrator bring the server back on another host with blank '
        'vdisks, without its data; with ``none`` (the default) the server '
        'waits for its data. See ``openstack vdisk host lost``. It is no key '
        'of a profile.',
        choices=(NONE, BLANK),
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
    piece. An elastic vdisk may be striped over up to ``widest_disks`` disks
    later, which is 0 for all others; it consists of so many equal *legs*.
    ``on_host_loss`` is ``BLANK`` if the server may come back on another host
    without its data, else ``NONE``.
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
    widest_disks: int = 0
    on_host_loss: str = NONE

    @property
    def legs(self) -> int:
        """Number of the equal parts of each vdisk."""
        return self.widest_disks or self.stripe_disks

    @property
    def placed_by(self) -> str:
        """Name of the mapping that places the pieces."""
        narrow = self.mapping == ELASTIC and self.stripe_disks == 1
        return mapping.CONSOLIDATED if narrow else self.mapping

    @property
    def pieces(self) -> int:
        """Number of the pieces of all vdisks."""
        return self.vdisks * self.stripe_disks

    @property
    def piece_gb(self) -> int:
        """GiB of each piece, whose legs are rounded up."""
        return self.leg_gb * self.legs // self.stripe_disks

    @property
    def leg_gb(self) -> int:
        """GiB of each leg, rounded up."""
        return -(-self.vdisk_gb // self.legs)

    @property
    def piece_mbps(self) -> int:
        """MB/s that are claimed for each piece, rounded up."""
        return -(-self.vdisk_mbps // self.stripe_disks)

    def is_vdisk(
        self, size_gb: int | None, volume_type: str | None, bootable: bool
    ) -> bool:
        """Return whether a volume of the server is one of these vdisks.

        The filter of nova-api, the scheduler and the Cinder driver all ask
        this, so that they agree on the volumes that fill the claims. Any other
        volume of the server takes space that nobody claims. A flavor that has
        the ID of its volume type in place of the name takes volumes of any
        type.

        :param size_gb: in GiB, None if it is not known.
        :param volume_type: its name, None if it is not known.
        :param bootable: a server boots from it, or may.
        """
        own_type = self.volume_type
        if own_type and uuidutils.is_uuid_like(own_type):
            own_type = None
        return (
            not bootable
            and size_gb == self.vdisk_gb
            and (not volume_type or own_type in (None, volume_type))
        )


def parse(
    extra_specs: collections.abc.Mapping[str, str],
    profiles: Profiles = NO_PROFILES,
) -> VDiskRequest | None:
    """Return the vdisks that a flavor's extra specs ask for, None for none.

    A tier, a volume type or a framework in the guest asks for no vdisks, nor
    does a profile without their number and size: they apply to volumes that
    are attached later.

    :param profiles: the catalogue in which ``diskplacer:profile`` is found.
    :raises ValueError: a key or the profile is unknown, a value is not
        allowed, one of ``vdisks`` and ``vdisk_gb`` is missing, or
        ``stripe_disks`` does not fit the mapping. Nova's
        API refuses bad keys and values already, but flavors may be older than
        the validators.
    """
    own = _without_namespace(extra_specs)
    if not own:
        return None
    for name in own:
        if name not in SPECS:
            allowed = ', '.join(NAMESPACE + key for key in sorted(SPECS))
            raise ValueError(f'{NAMESPACE}{name} is not one of: {allowed}')
    profile = None
    texts = own
    if PROFILE in own:
        if own[PROFILE] not in profiles:
            allowed = ', '.join(sorted(profiles))
            raise ValueError(
                f'{NAMESPACE}{PROFILE}={own[PROFILE]} is not one of: {allowed}'
            )
        profile = profiles[own[PROFILE]]
        texts = {**_without_namespace(profile.specs), **own}
    missing = [name for name in ('vdisks', 'vdisk_gb') if name not in texts]
    values: dict[str, typing.Any] = {
        name: SPECS[name].value(name, text) for name, text in texts.items()
    }
    if own.keys() <= _OF_SERVER and len(missing) == 2:
        return None
    for name in missing:
        given = ', '.join(NAMESPACE + key for key in sorted(own))
        raise ValueError(
            f'{NAMESPACE}{name} is required with {given}; Nova accepts the '
            'flavor without, because it checks each extra spec by itself'
        )
    values[STRIPE_DISKS], values['widest_disks'] = stripe_disks.parse(
        values.get('mapping', ROUND_ROBIN), values.get(STRIPE_DISKS)
    )
    values.pop(IO_TIER, None)
    if profile:
        values[PROFILE] = profile.name
        values['cache_mode'] = profile.cache_mode
    return VDiskRequest(**values)


def _without_namespace(
    extra_specs: collections.abc.Mapping[str, str],
) -> dict[str, str]:
    return {
        key.removeprefix(NAMESPACE): value
        for key, value in extra_specs.items()
        if key.startswith(NAMESPACE)
    }
