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

"""Ends the move of a volume whose data has arrived at the destination.

The source removes its export and its vdisk, and then the record is removed.
"""

import contextlib

from oslo_log import log as logging

from cinder_vdisk_mapper.attach import export
from cinder_vdisk_mapper.server_moves import other_host
from cinder_vdisk_mapper.server_moves import store
from cinder_vdisk_mapper.server_moves.record import Record
from cinder_vdisk_mapper.vdisks import naming

LOG = logging.getLogger(__name__)


def finish(volume_id: str) -> Record | None:
    """Ask the source to release its vdisk, and remove the record; repeatable.

    :returns: the record that stays, None if it is removed. It stays while the
        source does not answer, unless its service was removed.
    :raises DiskPlacerError: the database does not answer.
    """
    volume, recorded = store.fresh(volume_id), store.read(volume_id)
    if recorded is None:
        return None
    if naming.is_exported(volume):
        # without a lock: the source may ask at the same time
        other_host.go_on(volume, recorded.source, recorded.source_host)
        volume = store.fresh(volume_id)
    if naming.is_exported(volume) and other_host.is_removed(recorded.source):
        LOG.warning(
            'Volume %s leaves its vdisk on %s, which was removed',
            volume_id,
            recorded.source,
        )
        export.Exporter.forget(volume)
    if not naming.is_exported(volume) and store.read(volume_id) == recorded:
        with contextlib.suppress(store.Changed):
            store.forget(volume_id, recorded)
    return store.read(volume_id)
