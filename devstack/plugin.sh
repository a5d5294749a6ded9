#!/bin/bash
#
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


# plugin.sh - DevStack plugin of nova-diskplacer
#
# Its knobs are in devstack/settings, what it does is in devstack/lib.

source $(dirname "${BASH_SOURCE[0]}")/lib/diskplacer

if [[ "$1" == "stack" && "$2" == "install" ]]; then
    echo_summary "Installing nova-diskplacer"
    install_diskplacer
elif [[ "$1" == "stack" && "$2" == "post-config" ]]; then
    echo_summary "Configuring nova-diskplacer"
    configure_diskplacer
    configure_diskplacer_services
    if is_service_enabled diskplacer-agent; then
        create_diskplacer_disks
    fi
    # Cinder's new database has no volumes
    remove_diskplacer_vdisks
elif [[ "$1" == "stack" && "$2" == "extra" ]]; then
    echo_summary "Starting nova-diskplacer"
    start_diskplacer_services
    create_diskplacer_types
    if is_service_enabled diskplacer-agent; then
        echo_summary "Waiting for the disks' resource providers"
        wait_for_diskplacer_disks
    fi
elif [[ "$1" == "stack" && "$2" == "test-config" ]]; then
    if is_service_enabled tempest; then
        configure_diskplacer_tempest
    fi
elif [[ "$1" == "unstack" ]]; then
    stop_diskplacer_services
elif [[ "$1" == "clean" ]]; then
    cleanup_diskplacer_services
    cleanup_diskplacer_disks
fi
