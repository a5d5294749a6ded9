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

# Starts an OpenStack cloud on the machine of tools/guide/machine.sh, as one is
# before nova-diskplacer comes. Runs there, as root, in /root.
#
# Accounts have the passwords that the guide writes, such as NOVA_PASS.

set -euo pipefail
cd /root

CONTROLLER='keystone placement-api glance-api nova-conductor nova-scheduler
    nova-api cinder-api cinder-scheduler'
DATABASES='keystone placement glance nova_api nova nova_cell0 cinder'
DATABASE=mysql+pymysql://openstack:DB_PASS@127.0.0.1

say() {
    echo "-- $*"
}

# Run a command as the user of a service.
as_user() {
    su -s /bin/sh "$1" -c "$2"
}

# Print how a service's user logs in.
login() {
    cat << EOF
auth_type = password
auth_url = http://controller:5000/v3
username = $1
password = ${1^^}_PASS
user_domain_name = Default
project_name = service
project_domain_name = Default
region_name = RegionOne
EOF
}

# Print the sections of a service's user: requests that it gets, and makes.
accounts() {
    cat << EOF
[keystone_authtoken]
www_authenticate_uri = http://controller:5000/
service_token_roles = service
service_token_roles_required = true
$(login "$1")
[service_user]
send_service_user_token = true
$(login "$1")
EOF
}

# Write a file that only a service can read.
keep() {
    cat > "/etc/$1/$2"
    chgrp "$1" "/etc/$1/$2"
    chmod 640 "/etc/$1/$2"
}

write_keystone() {
    keep keystone keystone.conf << EOF
[database]
connection = $DATABASE/keystone
[identity]
password_hash_rounds = 4
[token]
provider = fernet
EOF
}

write_placement() {
    keep placement placement.conf << EOF
[api]
auth_strategy = keystone
[placement_database]
connection = $DATABASE/placement
$(accounts placement)
EOF
}

write_glance() {
    keep glance glance-api.conf << EOF
[DEFAULT]
enabled_backends = file:file
[database]
connection = $DATABASE/glance
[glance_store]
default_backend = file
[file]
filesystem_store_datadir = /var/lib/glance/images
[os_glance_staging_store]
filesystem_store_datadir = /var/lib/glance/staging
[os_glance_tasks_store]
filesystem_store_datadir = /var/lib/glance/tasks
[paste_deploy]
flavor = keystone
$(accounts glance)
EOF
}

write_nova() {
    keep nova nova.conf << EOF
[DEFAULT]
transport_url = rabbit://openstack:RABBIT_PASS@controller:5672/
my_ip = 127.0.0.1
state_path = /var/lib/nova
block_device_allocate_retries = 300
[api]
auth_strategy = keystone
[api_database]
connection = $DATABASE/nova_api
[database]
connection = $DATABASE/nova
[conductor]
workers = 1
[scheduler]
workers = 1
discover_hosts_in_cells_interval = 3
[oslo_concurrency]
lock_path = /var/lock/nova
[placement]
$(login placement)
[cinder]
$(login nova)
[glance]
$(login nova)
[neutron]
$(login nova)
[vnc]
enabled = false
$(accounts nova)
EOF
    keep nova nova-compute.conf << EOF
[DEFAULT]
compute_driver = fake.FakeDriverWithoutFakeNodes
EOF
}

write_cinder() {
    keep cinder cinder.conf << EOF
[DEFAULT]
transport_url = rabbit://openstack:RABBIT_PASS@controller:5672/
my_ip = 127.0.0.1
auth_strategy = keystone
state_path = /var/lib/cinder
default_volume_type = other
[database]
connection = $DATABASE/cinder
[oslo_concurrency]
lock_path = /var/lock/cinder
$(accounts cinder)
EOF
}

# One process each is enough, and the kernel may have no AppArmor.
write_uwsgi() {
    sed -i -e 's/^processes = .*/processes = 1/' \
        -e 's/^threads = .*/threads = 4/' \
        -e '/^apparmor-profile/d' -e 's/,apparmor$//' \
        /etc/{keystone,placement,glance,nova,cinder}/*-uwsgi.ini
}

write_neutron() {
    cat > /etc/systemd/system/neutron.service << EOF
[Service]
WorkingDirectory=/root
ExecStart=/usr/bin/python3 -m tools.minicloud.neutron 9696
EOF
    systemctl daemon-reload
}

make_databases() {
    local name
    {
        for name in $DATABASES; do
            echo "CREATE DATABASE $name CHARACTER SET utf8mb4;"
        done
        echo "CREATE USER openstack@localhost IDENTIFIED BY 'DB_PASS';"
        echo 'GRANT ALL ON *.* TO openstack@localhost;'
    } | mariadb
    as_user keystone 'keystone-manage db_sync'
    as_user placement 'placement-manage db sync'
    as_user glance 'glance-manage db_sync'
    as_user cinder 'cinder-manage db sync'
    as_user nova 'nova-manage api_db sync'
    as_user nova "nova-manage cell_v2 map_cell0 \
        --database_connection $DATABASE/nova_cell0"
    as_user nova 'nova-manage cell_v2 create_cell --name cell1'
    as_user nova 'nova-manage db sync'
}

make_users() {
    rabbitmqctl --quiet add_user openstack RABBIT_PASS
    rabbitmqctl --quiet set_permissions openstack '.*' '.*' '.*'
    keystone-manage fernet_setup \
        --keystone-user keystone --keystone-group keystone
    keystone-manage credential_setup \
        --keystone-user keystone --keystone-group keystone
    as_user keystone 'keystone-manage bootstrap \
        --bootstrap-password ADMIN_PASS \
        --bootstrap-admin-url http://controller:5000/v3/ \
        --bootstrap-internal-url http://controller:5000/v3/ \
        --bootstrap-public-url http://controller:5000/v3/ \
        --bootstrap-region-id RegionOne'
    cat > admin-openrc << EOF
export OS_AUTH_URL=http://controller:5000/v3
export OS_USERNAME=admin
export OS_PASSWORD=ADMIN_PASS
export OS_PROJECT_NAME=admin
export OS_USER_DOMAIN_NAME=Default
export OS_PROJECT_DOMAIN_NAME=Default
export OS_REGION_NAME=RegionOne
export OS_IDENTITY_API_VERSION=3
EOF
}

say configuration
for name in keystone placement glance nova cinder uwsgi neutron; do
    "write_$name"
done
say databases
make_databases
say users
make_users
say services
# units want each other's: it may have started before it had its files
systemctl restart neutron keystone
. ./admin-openrc
python3 -W ignore catalog.py services
# cinder-volume has no backend yet
# shellcheck disable=SC2086
systemctl enable --quiet $CONTROLLER nova-compute cinder-volume
# shellcheck disable=SC2086
systemctl restart $CONTROLLER nova-compute
say resources
python3 -W ignore catalog.py resources
