#!/bin/bash
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

# Makes a machine on which the test of the installation guide follows it: a
# directory for systemd-nspawn.
#
#   tools/guide/machine.sh openstack|python DIRECTORY     as root
#
# openstack is Debian unstable with the services of a controller and of a
# compute host, from Debian's packages. Of nova-diskplacer it has but the
# packages of dist/debian, in /root. What they depend on is installed: the
# machine needs no network. The services start when cloud.sh, in /root too,
# starts them.
#
# python is this machine's release of Debian, with Python and what compiles
# libvirt-python.
#
# MIRROR is the URL of a Debian mirror, that of this machine by default.

set -euo pipefail
cd "$(dirname "$0")/../.."
. tools/lib/env.sh
. tools/lib/chroot.sh

SYSTEM='systemd-sysv dbus iproute2'
SERVICES='keystone placement-api glance-api nova-api nova-conductor
    nova-scheduler nova-compute cinder-api cinder-scheduler cinder-volume'
# Of the hypervisors' packages, nova-compute-ironic has the fewest
# dependencies; cloud.sh has nova-compute use Nova's fake driver.
OPENSTACK="$SERVICES nova-compute-ironic mariadb-server rabbitmq-server sudo
    python3-openstackclient python3-osc-placement python3-pymysql"
PYTHON='gcc libvirt-dev pkg-config python3-dev python3-venv'

# Run mmdebstrap for a machine with packages.
make() {
    local packages=$1
    shift
    # shellcheck disable=SC2086
    chroot_make --variant=minbase \
        --include="$(echo $SYSTEM $packages | tr ' ' ',')" "$@"
}

make_openstack() {
    local services
    # shellcheck disable=SC2086
    services=$(echo $SERVICES)
    # shellcheck disable=SC2016
    make "$OPENSTACK" --customize-hook='cp dist/debian/*.deb "$1/root"' \
        --customize-hook='chroot "$1" sh -ec "
            apt-get -q -y install /root/*.deb
            dpkg --purge \$(cd /root && ls *.deb | sed s/_.*//)
            systemctl disable '"$services"' nova-api-metadata" \
            > "$1/log" 2>&1 ||
                { cat "$1/log"; exit 1; }' \
        sid "$1"
    cp tools/guide/cloud.sh tools/guide/catalog.py "$1/root"
    mkdir -p "$1/root/tools/minicloud"
    cp tools/minicloud/{neutron,network}.py "$1/root/tools/minicloud"
}

make_python() {
    local release
    release=$(. /etc/os-release && echo "$VERSION_CODENAME")
    make "$PYTHON" "$release" "$1"
}

# Have the machine know itself, and the controller, by the guide's names.
name_hosts() {
    echo compute-1 > "$1/etc/hostname"
    cat > "$1/etc/hosts" << EOF
127.0.0.1 localhost
127.0.1.1 compute-1
127.0.1.2 controller
EOF
}

env_packages debian
chroot_find_mirror
export DEBIAN_FRONTEND=noninteractive
env_say "making the machine $1"
"make_$1" "$2"
name_hosts "$2"
