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

"""Create a server with the vdisks of its flavor, and list them.

    . openrc
    python create_server.py --network private analytics debian-12 etl-1

The request names no volumes: nova-api adds them, and they are deleted with
the server.
"""

import argparse

import openstack


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        '--network', default='auto', help='name, ID, none or auto (default)'
    )
    parser.add_argument('flavor', help='name or ID of a flavor with vdisks')
    parser.add_argument('image', help='name or ID')
    parser.add_argument('name', help='name of the new server')
    args = parser.parse_args()
    cloud = openstack.connect()
    compute = cloud.compute
    server = compute.create_server(
        name=args.name,
        flavor_id=compute.find_flavor(args.flavor, ignore_missing=False).id,
        image_id=cloud.image.find_image(args.image, ignore_missing=False).id,
        networks=networks(cloud, args.network),
    )
    compute.wait_for_server(server, wait=600)
    for attachment in compute.volume_attachments(server):
        volume = cloud.block_storage.get_volume(attachment.volume_id)
        print(attachment.device, f'{volume.size} GiB', volume.id)


def networks(
    cloud: openstack.connection.Connection, name: str
) -> str | list[dict[str, str]]:
    """Return what a request for a server says of its networks."""
    if name in ('auto', 'none'):
        return name
    network = cloud.network.find_network(name, ignore_missing=False)
    return [{'uuid': network.id}]


if __name__ == '__main__':
    main()
