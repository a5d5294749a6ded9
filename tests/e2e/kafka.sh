#!/bin/sh
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

# Makes an image of servers that run Kafka of a root disk: user, configuration
# file and service are there, as a package brings them, but no Kafka. The
# service writes to each of Kafka's directories when it starts. Of cloud-init's
# modules, there are those that have to do with disks and scripts.

useradd --system --user-group kafka
mkdir -p /etc/kafka/conf
echo 'log.dirs=/tmp/kafka-logs' > /etc/kafka/conf/server.properties
cat > /usr/local/bin/kafka << 'END'
#!/bin/sh -e
sed -n 's/^log.dirs=//p' /etc/kafka/conf/server.properties | tr , '\n' |
    while read -r directory; do
        touch "$directory/started"
    done
END
chmod +x /usr/local/bin/kafka
cat > /etc/systemd/system/kafka.service << 'END'
[Unit]
Wants=network-online.target
After=network-online.target
[Service]
Type=oneshot
RemainAfterExit=yes
User=kafka
ExecStart=/usr/local/bin/kafka
[Install]
WantedBy=multi-user.target
END
systemctl --quiet enable kafka.service
cat > /etc/cloud/cloud.cfg.d/99_image.cfg << 'END'
cloud_init_modules: [bootcmd, write-files, disk_setup, mounts]
cloud_config_modules: [runcmd]
cloud_final_modules: [scripts-vendor, scripts-user]
END
