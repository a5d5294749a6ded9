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

"""The media of the disks that a flavor claims, and those its volumes can use.

The scheduler claims disks of the flavor's media; it does not know which
backend of Cinder has them. So a flavor must ask for no medium that its volume
type lacks on a host with disks of that medium.
"""

import collections
import collections.abc
import typing

from nova_diskplacer import flavor


class Pool(typing.NamedTuple):
    """A pool of a backend with vdisks, and its ``vdisk_media``.

    ``backend`` is its ``volume_backend_name``.
    """

    host: str
    backend: str
    media: str


def unusable(
    media: str, backend: str, pools: collections.abc.Iterable[Pool]
) -> set[str]:
    """Return the media that a flavor may claim and its volumes cannot use.

    :param media: ``diskplacer:media`` of the flavor.
    :param backend: ``volume_backend_name`` of its volume type.
    """
    claimable = collections.defaultdict[str, set[str]](set)
    usable = collections.defaultdict[str, set[str]](set)
    for pool in pools:
        pool_media = {pool.media}
        if pool.media == flavor.ANY:
            pool_media = set(flavor.MEDIA) - {flavor.ANY}
        if pool.backend == backend:
            usable[pool.host] |= pool_media
        if media != flavor.ANY:
            pool_media &= {media}
        claimable[pool.host] |= pool_media
    return {
        medium
        for host, host_media in claimable.items()
        for medium in host_media - usable[host]
    }


def problem(
    media: str,
    volume_type: str,
    backend: str,
    pools: collections.abc.Collection[Pool],
) -> str:
    """Return why vdisks of a flavor may not fit its volume type, or ''.

    :param volume_type: its name.
    :param backend: its ``volume_backend_name``, '' if it has none.
    """
    if not any(pool.backend == backend for pool in pools):
        # another check, or other software, tells what is wrong
        return ''
    lacking = unusable(media, backend, pools)
    if not lacking:
        return ''
    has = {pool.media for pool in pools if pool.backend == backend}
    return (
        f'{flavor.NAMESPACE}media is {media}, so that {_listed(lacking)} '
        f'disks may be chosen, and its volume type {volume_type} has '
        f'{_listed(has)} disks only on such hosts'
    )


def _listed(media: collections.abc.Iterable[str]) -> str:
    return ' and '.join(sorted(media))
