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

"""The papers that the shipped profiles rest on, as their sources name them."""

PAPERS = {
    'P0': 'Ha, Venzano, Brown, Michiardi: On the Impact of Virtualization on '
    'the I/O Performance of Analytic Workloads '
    '(000_d089117566d8ea41.txt)',
    'P1': 'Lim, Horey, Yao, Begoli, Cao: Performance implications from sizing '
    "a VM on multi-core systems: A Data analytic application's view "
    '(001_cd4661945ed86b76.txt)',
    'P2': 'The study of virtualizing multiple local disks for I/O intensive '
    'MapReduce workloads (002_8f5253cc978ff490.txt)',
    'P3': 'The earlier draft of P0, with other figures '
    '(003_e61eeb36a9c5036a.txt)',
    'P4': 'Malensek, Pallickara, Pallickara: Alleviation of Disk I/O '
    'Contention in Virtualized Settings for Data-Intensive Computing '
    '(004_79ebced5be7c8faf.txt)',
}
