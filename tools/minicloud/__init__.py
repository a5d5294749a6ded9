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


"""A real OpenStack on one machine, for the demo, e2e tests and benchmarks.

MariaDB, RabbitMQ, Keystone, Placement, Glance, Nova and Cinder run from
packages on 127.0.0.1, with one libvirt/QEMU compute host, compute hosts with
fake guests, and loop devices for local disks. Only Neutron is stood in for
(see :mod:`tools.minicloud.neutron`): its answers are empty lists.
"""
