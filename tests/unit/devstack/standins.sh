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


# DevStack's functions and the host's commands, stood in for. Calls go to
# $STATE/calls, options to $STATE/ini as "file section option value"; what is
# attached, mounted, created and running are lines of files in $STATE.

set -o errexit

TOP_DIR=$STATE
DATA_DIR=$STATE/data
STACK_USER=stack
ENABLE_DEBUG_LOG_LEVEL=True
NOVA_CONF=nova.conf
NOVA_CPU_CONF=nova-cpu.conf
NOVA_API_PASTE_INI=api-paste.ini
CINDER_CONF=cinder.conf
CINDER_CONF_DIR=$STATE/cinder
NOVA_FILTERS=ComputeFilter,SameHostFilter
TEMPEST_CONFIG=tempest.conf
REGION_NAME=RegionOne
SERVICE_TIMEOUT=1
SYSTEMD_DIR=$STATE/systemd
SYSTEMCTL=systemctl
DISKPLACER_CONF_DIR=${DISKPLACER_CONF_DIR:-$STATE/etc}
DISKPLACER_DISK_ROOT=$STATE/disks
ENABLED_SERVICES=${ENABLED_SERVICES-n-api,n-api-meta,n-sch,n-cpu,c-api,c-sch,c-vol}
CINDER_ENABLED_BACKENDS=${CINDER_ENABLED_BACKENDS-lvm:lvmdriver-1}
BIN=$STATE/bin
touch $STATE/{calls,ini,loops,mounts,flavors,types,processes}

function call {
    echo "$*" >> $STATE/calls
}

function define_plugin {
    call define_plugin "$@"
}

function echo_summary {
    :
}

function enable_service {
    ENABLED_SERVICES+=,$1
}

function is_service_enabled {
    local service
    for service in "$@"; do
        if [[ ,$ENABLED_SERVICES, == *,$service,* ]]; then
            return 0
        fi
    done
    return 1
}

function get_python_exec_prefix {
    echo $BIN
}

function setup_develop {
    call setup_develop "$@"
}

function iniset_multiline {
    local option="$1 $2 $3" value
    shift 3
    grep -v "^$option " $STATE/ini > $STATE/ini.new || true
    for value in "$@"; do
        echo "$option $value" >> $STATE/ini.new
    done
    mv $STATE/ini.new $STATE/ini
}

function iniset {
    [[ $# -eq 4 ]]
    iniset_multiline "$@"
}

# What was set, or else what nova-api comes with.
function iniget {
    [[ $# -eq 3 ]]
    local set
    set=$(sed -n "s|^$1 $2 $3 ||p" $STATE/ini)
    if [[ -z $set && $1 == $NOVA_API_PASTE_INI ]]; then
        set="authtoken keystonecontext app_v21"
    fi
    echo $set
}

function iniget_multiline {
    echo $(iniget "$@")
}

function iniset_rpc_backend {
    [[ $1 == nova ]]
    iniset $2 DEFAULT transport_url rabbit://top
}

function configure_placement_nova_compute {
    iniset $1 placement auth_type password
}

function configure_keystoneauth {
    iniset $1 $3 username $2
}

function configure_keystone_authtoken_middleware {
    configure_keystoneauth $1 $2 keystone_authtoken
}

function wait_for_service {
    call wait_for_service "$@"
}

function die {
    echo "${*:2}" >&2
    exit 1
}

function sleep {
    SECONDS=1000
}

function run_process {
    if is_service_enabled $1; then
        call run_process "$@"
        grep -qx $1 $STATE/processes || echo $1 >> $STATE/processes
        touch $SYSTEMD_DIR/devstack@$1.service
    fi
}

function stop_process {
    sed -i "/^$1$/d" $STATE/processes
}

function sudo {
    "$@"
}

function install {
    if [[ $1 == -m ]]; then
        [[ $4 != */ ]] || mkdir -p $4
        command install "$@"
        return
    fi
    [[ "$1 $2 $3" == "-d -o $STACK_USER" ]]
    mkdir -p $4
}

function losetup {
    case $1 in
    --noheadings) sed -n "s|^\(.*\) ${*: -1}$|\1|p" $STATE/loops ;;
    --find)
        echo "/dev/loop$(wc -l < $STATE/loops) $3" >> $STATE/loops
        tail -n 1 $STATE/loops | cut -d ' ' -f 1
        ;;
    --detach) sed -i "\|^$2 |d" $STATE/loops ;;
    esac
}

function systemctl {
    call systemctl "$@"
}

function mountpoint {
    grep -qx "$2" $STATE/mounts
}

function umount {
    sed -i "\|^$1$|d" $STATE/mounts
}

# Placement has the disks in $STATE/mounts, but for $UNHEALTHY.
function list_disks {
    local mount
    while read -r mount; do
        if [[ $mount == */$UNHEALTHY ]]; then
            echo "${mount##*/} read-only"
        else
            echo "${mount##*/} ok"
        fi
    done < $STATE/mounts
}

# openstack RESOURCE... create|show|set NAME ...
function openstack {
    local kind=${1}s
    if [[ "$*" == "vdisk disk list --long -f value -c Disk -c Health" ]]; then
        list_disks
        return
    fi
    if [[ $1 == volume ]]; then
        kind=types
        shift
    fi
    call openstack "${@:1:3}" "${@:4}"
    case $2 in
    show) grep -qx $3 $STATE/$kind ;;
    create) echo $3 >> $STATE/$kind ;;
    set) grep -qx $3 $STATE/$kind ;;
    esac
}

mkdir -p $BIN $SYSTEMD_DIR
cat > $BIN/diskplacer-manage << EOT
#!/bin/bash
echo "diskplacer-manage \$*" >> $STATE/calls
entry=$DISKPLACER_DISK_ROOT/id-\$(basename "\${@: -1}")
mkdir -p \$entry/vdisks
grep -qx "\$entry" $STATE/mounts || echo "\$entry" >> $STATE/mounts
EOT
chmod +x $BIN/diskplacer-manage
