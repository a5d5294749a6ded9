# A server with four vdisks. The flavor has diskplacer:vdisks=4 and
# diskplacer:vdisk_gb=100.

terraform {
  required_providers {
    openstack = {
      source = "terraform-provider-openstack/openstack"
    }
  }
}

# Credentials come from clouds.yaml (OS_CLOUD) or the OS_* variables.
provider "openstack" {}

variable "flavor" {
  default = "analytics"
}

variable "image" {
  default = "debian-12"
}

variable "network" {
  default = "private"
}

# Number, size in GiB and type of the vdisks, as in the flavor's properties.
variable "vdisks" {
  default = 4
}

variable "vdisk_gb" {
  default = 100
}

variable "volume_type" {
  default = "vdisk"
}

data "openstack_images_image_v2" "image" {
  name        = var.image
  most_recent = true
}

resource "openstack_compute_instance_v2" "worker" {
  name        = "worker-1"
  flavor_name = var.flavor
  # The provider wants it beside the block device of the image.
  image_id = data.openstack_images_image_v2.image.id

  network {
    name = var.network
  }

  # The root disk: Nova wants a mapping for it as soon as there are others.
  block_device {
    source_type           = "image"
    uuid                  = data.openstack_images_image_v2.image.id
    destination_type      = "local"
    boot_index            = 0
    delete_on_termination = true
  }

  # The vdisks. If volume_type is the project's default volume type, leave out
  # this block and the one above: the cloud adds the vdisks.
  dynamic "block_device" {
    for_each = range(var.vdisks)
    content {
      source_type           = "blank"
      destination_type      = "volume"
      volume_size           = var.vdisk_gb
      volume_type           = var.volume_type
      boot_index            = -1
      delete_on_termination = true
    }
  }
}
