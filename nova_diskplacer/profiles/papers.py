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
    'the I/O Performance of Analytic Workloads',
    'P1': 'Lim, Horey, Yao, Begoli, Cao: Performance implications from sizing '
    "a VM on multi-core systems: A Data analytic application's view",
    'P2': 'untitled and without authors in the text at hand: on MapReduce in '
    'servers with many virtual disks, mapped to local disks by round robin or '
    'consolidated',
    'P3': 'Ha, Venzano, Brown, Michiardi: The Impacts of Virtualization on '
    "Big Data Application's Workload (a draft by the authors of P0, with "
    'other figures)',
    'P4': 'Malensek, Pallickara, Pallickara: Alleviation of Disk I/O '
    'Contention in Virtualized Settings for Data-Intensive Computing',
}
