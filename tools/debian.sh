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

# Builds the Debian packages in a clean chroot, and checks them with lintian.
# Then installs all of them in another clean chroot, imports every part, starts
# systemd there, and checks that the services become active, that an upgrade
# leaves those of cinder-vdisk-mapper running, and that nothing is left of
# packages that are purged.
#
#   tools/debian.sh [--build-only] [SUITE]     as root; SUITE is sid or newer
#
# The packages are left in dist/debian. MIRROR is the URL of a Debian mirror,
# that of this machine by default.

set -euo pipefail
cd "$(dirname "$0")/.."
. tools/lib/env.sh
. tools/lib/chroot.sh
env_help "${1:-}"

SERVICES='diskplacer-agent diskplacer-vendordata'
# An upgrade must not stop them, a removal must.
KEPT='diskplacer-elastic diskplacer-settle'
# Only uploads to Debian close a bug, and each command has --help.
SUPPRESSED=initial-upload-closes-no-bugs,no-manual-page
PATIENCE=120

build_only=
if [ "${1:-}" = --build-only ]; then
    build_only=1
    shift
fi
suite=${1:-sid}
out=$PWD/dist/debian
work=$(mktemp -d)
container=

clean_up() {
    [ -z "$container" ] || kill "$container" 2> /dev/null || true
    [ -z "$container" ] || wait "$container" 2> /dev/null || true
    rm -rf --one-file-system "$work"
}
trap clean_up EXIT

build() {
    env_say "building for $suite"
    mkdir "$work/built"
    git ls-files -z | tar --null -T - -cf "$work/source.tar"
    chroot_make --variant=buildd --format=null \
        --customize-hook='mkdir -p "$1/build/source"' \
        --customize-hook="tar-in $work/source.tar /build/source" \
        --customize-hook='chroot "$1" sh -ec "
            cd /build/source
            apt-get -q -y build-dep ./ > /build/log 2>&1
            apt-get -q -y install lintian >> /build/log 2>&1
            dpkg-buildpackage -us -uc -b > /build/log 2>&1 ||
                { cat /build/log; exit 1; }
            lintian --allow-root --fail-on error,warning \
                --suppress-tags '$SUPPRESSED' ../*.changes"' \
        --customize-hook="cp \"\$1\"/build/*.deb $work/built" \
        "$suite" /dev/null
    rm -rf "$out"
    mkdir -p "$out"
    cp "$work"/built/*.deb "$out"
    env_say "built: $(cd "$out" && echo ./*.deb)"
}

install() {
    env_say 'installing every package'
    chroot_make --variant=minbase --include=systemd-sysv,dbus \
        --customize-hook="mkdir \"\$1/packages\"" \
        --customize-hook="cp $out/*.deb \"\$1/packages\"" \
        --customize-hook='DEBIAN_FRONTEND=noninteractive chroot "$1" \
            sh -c "apt-get -q -y install /packages/*.deb" > /dev/null' \
        "$suite" "$work/root"
    local module
    # Nova and Cinder cannot be imported into one process
    for module in nova_diskplacer.api.blank_volumes \
            nova_diskplacer.scheduler.{filter,weigher} \
            nova_diskplacer.client.osc.{disks,profiles} \
            diskplacer_measure.cmd.{sizing,sweep} \
            cinder_vdisk_mapper.{driver,scheduler}; do
        chroot "$work/root" python3 -W ignore -c "import $module"
    done
    chroot "$work/root" diskplacer-manage --help > /dev/null
    chroot "$work/root" diskplacer-status --help > /dev/null
    chroot "$work/root" openstack vdisk list --help > /dev/null
    test -s "$work/root/etc/cinder/rootwrap.d/vdisk-mapper.filters"
}

# Neither the message bus, Placement nor Keystone has to answer.
configure() {
    local directory
    directory=$work/root/etc/nova-diskplacer
    cat > "$directory/nova-diskplacer.conf" << 'EOF'
[DEFAULT]
transport_url = rabbit://guest:guest@127.0.0.1:1/
[placement]
auth_type = none
endpoint_override = http://127.0.0.1:1
EOF
    cat > "$directory/vendordata.conf" << 'EOF'
[keystone_authtoken]
www_authenticate_uri = http://127.0.0.1:1
auth_type = none
[diskplacer_vendordata]
auth_type = none
endpoint_override = http://127.0.0.1:1
EOF
    chmod 600 "$directory"/*.conf
    # as Debian's nova-common makes it: no service here is of its group
    mkdir -p "$work/root/etc/nova"
    chmod 750 "$work/root/etc/nova"
}

# Run a command beside the container's systemd.
enter() {
    local init
    init=$(cat "/proc/$container/task/$container/children")
    nsenter --target "${init%% *}" --all --root --wd "$@"
}

# Wait until a command succeeds.
wait_for() {
    local deadline
    deadline=$((SECONDS + PATIENCE))
    until "$@" > /dev/null 2>&1; do
        if [ $SECONDS -gt $deadline ]; then
            env_say "in vain for ${PATIENCE} s: $*"
            return 1
        fi
        sleep 1
    done
}

# Install the packages again, while the services of the Cinder driver run. They
# have nothing to do here, and would end.
upgrade() {
    local service before after
    for service in $KEPT; do
        mkdir -p "$work/root/etc/systemd/system/$service.service.d"
        cat > "$work/root/etc/systemd/system/$service.service.d/idle.conf" \
            << 'EOF'
[Unit]
ConditionPathExists=
[Service]
ExecStart=
ExecStart=sleep infinity
EOF
    done
    enter systemctl daemon-reload
    # shellcheck disable=SC2086
    enter systemctl start $KEPT
    # shellcheck disable=SC2086
    before=$(enter systemctl show -P MainPID $KEPT)
    enter sh -c 'dpkg --install /packages/*.deb > /dev/null'
    # shellcheck disable=SC2086
    after=$(enter systemctl show -P MainPID $KEPT)
    # shellcheck disable=SC2086
    env_say "processes of $KEPT:" $before, after the upgrade: $after
    [ "$before" = "$after" ]
}

check() {
    local service state
    env_say 'starting systemd'
    SYSTEMD_NSPAWN_UNIFIED_HIERARCHY=1 systemd-nspawn --quiet --boot \
        --directory "$work/root" --register=no --keep-unit \
        --private-network --console=read-only > "$work/console" 2>&1 &
    container=$!
    wait_for enter systemctl is-active multi-user.target
    for service in $SERVICES; do
        state=$(enter systemctl is-active "$service" || true)
        env_say "$service without its configuration file: $state"
        [ "$state" = inactive ]
    done
    configure
    # shellcheck disable=SC2086
    enter systemctl start $SERVICES
    for service in $SERVICES; do
        wait_for enter systemctl is-active "$service"
        # and stays so
        sleep 5
        state=$(enter systemctl is-active "$service" || true)
        env_say "$service: $state, restarts:" \
            "$(enter systemctl show -P NRestarts "$service")"
        if [ "$state" != active ]; then
            enter journalctl --no-pager -u "$service"
            return 1
        fi
    done
    upgrade
    enter sh -c 'DEBIAN_FRONTEND=noninteractive apt-get -q -y purge \
        "*nova-diskplacer*" cinder-vdisk-mapper > /dev/null'
    for service in $SERVICES $KEPT; do
        wait_for enter sh -c "! systemctl is-active $service"
    done
    if enter sh -c 'command -v diskplacer-agent' ||
            test -e "$work/root/etc/cinder/rootwrap.d/vdisk-mapper.filters"; then
        env_say 'purged packages have left files'
        return 1
    fi
}

env_packages debian
chroot_find_mirror
build
if [ -z "$build_only" ]; then
    install
    check
fi
env_say 'the Debian packages are fine'
