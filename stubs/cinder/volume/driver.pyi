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

from collections.abc import Sequence
from typing import Any

_Json = dict[str, Any]
_ModelUpdate = _Json | None

class VolumeDriver:
    VERSION: str
    configuration: Any
    db: Any
    host: str
    target_mapping: dict[str, str]
    _stats: _Json
    def __init__(
        self, execute: Any = ..., *args: Any, **kwargs: Any
    ) -> None: ...
    @staticmethod
    def get_driver_options() -> list[Any]: ...
    def do_setup(self, context: Any) -> None: ...
    def check_for_setup_error(self) -> None: ...
    def get_filter_function(self) -> str | None: ...
    def get_goodness_function(self) -> str | None: ...
    def _update_volume_stats(self) -> None: ...
    def create_volume(self, volume: Any) -> _ModelUpdate: ...
    def delete_volume(self, volume: Any) -> None: ...
    def extend_volume(self, volume: Any, new_size: int) -> None: ...
    def create_cloned_volume(
        self, volume: Any, src_vref: Any
    ) -> _ModelUpdate: ...
    def create_volume_from_snapshot(
        self, volume: Any, snapshot: Any
    ) -> _ModelUpdate: ...
    def create_snapshot(self, snapshot: Any) -> _ModelUpdate: ...
    def delete_snapshot(self, snapshot: Any) -> None: ...
    def revert_to_snapshot(
        self, context: Any, volume: Any, snapshot: Any
    ) -> None: ...
    def snapshot_revert_use_temp_snapshot(self) -> bool: ...
    def backup_use_temp_snapshot(self) -> bool: ...
    def validate_connector(self, connector: _Json) -> None: ...
    def create_export(
        self, context: Any, volume: Any, connector: _Json
    ) -> _ModelUpdate: ...
    def ensure_export(self, context: Any, volume: Any) -> _ModelUpdate: ...
    def remove_export(self, context: Any, volume: Any) -> None: ...
    def initialize_connection(
        self, volume: Any, connector: _Json, initiator_data: Any = None
    ) -> _Json: ...
    def terminate_connection(
        self, volume: Any, connector: _Json | None, force: bool = False
    ) -> None: ...
    def local_path(self, volume: Any) -> str: ...
    def copy_image_to_volume(
        self,
        context: Any,
        volume: Any,
        image_service: Any,
        image_id: str,
        disable_sparse: bool = False,
    ) -> None: ...
    def copy_image_to_encrypted_volume(
        self,
        context: Any,
        volume: Any,
        image_service: Any,
        image_id: str,
        disable_sparse: bool = False,
    ) -> None: ...
    def _connect_device(self, conn: _Json) -> _Json: ...
    def _attach_volume(
        self,
        context: Any,
        volume: Any,
        properties: _Json,
        remote: bool = False,
    ) -> tuple[_Json, Any]: ...
    def _detach_volume(
        self,
        context: Any,
        attach_info: _Json | None,
        volume: Any,
        properties: _Json,
        force: bool = False,
        remote: bool = False,
        ignore_errors: bool = False,
    ) -> None: ...
    def create_group(self, context: Any, group: Any) -> _ModelUpdate: ...
    def update_group(
        self,
        context: Any,
        group: Any,
        add_volumes: list[Any] | None = None,
        remove_volumes: list[Any] | None = None,
    ) -> tuple[_ModelUpdate, list[_Json] | None, list[_Json] | None]: ...
    def delete_group(
        self, context: Any, group: Any, volumes: Sequence[Any]
    ) -> tuple[_ModelUpdate, list[_Json] | None]: ...
    def create_group_from_src(
        self,
        context: Any,
        group: Any,
        volumes: Sequence[Any],
        group_snapshot: Any = None,
        snapshots: Sequence[Any] | None = None,
        source_group: Any = None,
        source_vols: Sequence[Any] | None = None,
    ) -> tuple[_ModelUpdate, list[_Json] | None]: ...
    def create_group_snapshot(
        self, context: Any, group_snapshot: Any, snapshots: Sequence[Any]
    ) -> tuple[_ModelUpdate, list[_Json] | None]: ...
    def delete_group_snapshot(
        self, context: Any, group_snapshot: Any, snapshots: Sequence[Any]
    ) -> tuple[_ModelUpdate, list[_Json] | None]: ...
    def manage_existing_get_size(
        self, volume: Any, existing_ref: _Json
    ) -> int: ...
    def manage_existing(
        self, volume: Any, existing_ref: _Json
    ) -> _ModelUpdate: ...
    def unmanage(self, volume: Any) -> None: ...
    def get_manageable_volumes(
        self,
        cinder_volumes: list[Any],
        marker: Any,
        limit: int,
        offset: int,
        sort_keys: list[str],
        sort_dirs: list[str],
    ) -> list[_Json]: ...
    def manage_existing_snapshot_get_size(
        self, snapshot: Any, existing_ref: _Json
    ) -> int: ...
    def manage_existing_snapshot(
        self, snapshot: Any, existing_ref: _Json
    ) -> _ModelUpdate: ...
    def unmanage_snapshot(self, snapshot: Any) -> None: ...
    def get_manageable_snapshots(
        self,
        cinder_snapshots: list[Any],
        marker: Any,
        limit: int,
        offset: int,
        sort_keys: list[str],
        sort_dirs: list[str],
    ) -> list[_Json]: ...
    def migrate_volume(
        self, context: Any, volume: Any, host: _Json
    ) -> tuple[bool, _ModelUpdate]: ...
    def retype(
        self, context: Any, volume: Any, new_type: Any, diff: Any, host: Any
    ) -> bool | tuple[bool, _ModelUpdate]: ...
    def update_migrated_volume(
        self,
        context: Any,
        volume: Any,
        new_volume: Any,
        original_volume_status: str,
    ) -> _ModelUpdate: ...
    def update_provider_info(
        self, volumes: Sequence[Any], snapshots: Sequence[Any]
    ) -> tuple[list[_Json] | None, list[_Json] | None]: ...
