# SPDX-License-Identifier: MIT
# shellcheck shell=sh
# shellcheck disable=SC2154 # memory and work are tests/vm/boot's
# Sourced by tests/vm/boot, whose memory is $memory MiB: the devices that a machine has when
# they are asked for by name. cxl and iommu are the first: they decide what bus the others are on.
device_names='cxl cxl-ram iommu edu hmat dimm ivshmem nvdimm swiotlb vivid'

# What a machine without any is; each of them changes its part.
chipset=pc
bus=pci.0       # that all devices are on
features=       # of the chipset
slots=0         # for modules of memory
initiator=      # of each NUMA node: whose processors are nearest
more_devices=   # options of QEMU, behind those of all machines
last_devices=   # what brings a bus of its own: behind all others
more_modules=   # what the kernel loads for them
more_parameters= # what the kernel is started with
newer_qemu=     # it is none of Debian 12's: tests/vm/qemu
less_processor= # what it must not have, when it is emulated
not_saved=      # those whose registers QEMU 7.2 leaves out of a snapshot, without a word

# distance NODE LATENCY BANDWIDTH: of its memory, from the first node's processors, in ns and
# bytes a second
distance() {
	from_to="-numa hmat-lb,initiator=0,target=$1,hierarchy=memory"
	echo "$from_to,data-type=access-latency,latency=$2" \
		"$from_to,data-type=access-bandwidth,bandwidth=$3"
}

is_device() {
	case " $device_names " in
	*" $1 "*) return 0 ;;
	esac
	return 1
}

# add_device NAME
# shellcheck disable=SC2034 # tests/vm/boot has them
add_device() {
	case $1 in
	# A persistent memory device behind a host bridge of its own: /sys/bus/cxl's mem0. Linux 6.1
	# sets no decoder of a bridge with one root port, and without one QEMU 7.2 passes nothing
	# through.
	cxl)
		chipset=q35 bus=pcie.0 not_saved="$not_saved cxl"
		features="$features,cxl=on,cxl-fmw.0.targets.0=bridge,cxl-fmw.0.size=4G"
		last_devices='-object memory-backend-ram,id=cxl,size=256M,share=on
			-object memory-backend-ram,id=labels,size=256M,share=on
			-device pxb-cxl,bus_nr=12,bus=pcie.0,id=bridge
			-device cxl-rp,port=0,bus=bridge,id=rootport,chassis=0,slot=2
			-device cxl-rp,port=1,bus=bridge,id=rootport1,chassis=0,slot=3
			-device cxl-type3,bus=rootport,memdev=cxl,lsa=labels,sn=0xc0ffee'
		more_modules="$more_modules cxl_acpi cxl_pci cxl_mem cxl_port cxl_pmem"
		;;
	# A volatile one, of 512 MiB. The kernel makes a region of it only where it can empty the
	# processors' caches, which it believes of no virtual machine.
	cxl-ram)
		chipset=q35 bus=pcie.0 newer_qemu=1 less_processor=,-hypervisor
		not_saved="$not_saved cxl-ram"
		features="$features,cxl=on,cxl-fmw.0.targets.0=bridge,cxl-fmw.0.size=4G"
		last_devices='-object memory-backend-ram,id=cxl,size=512M,share=on
			-device pxb-cxl,bus_nr=12,bus=pcie.0,id=bridge
			-device cxl-rp,port=0,bus=bridge,id=rootport,chassis=0,slot=2
			-device cxl-type3,bus=rootport,volatile-memdev=cxl,sn=0xc0ffee'
		more_modules="$more_modules cxl_acpi cxl_pci cxl_mem cxl_port"
		more_modules="$more_modules dax_cxl kmem device_dax"
		;;
	# QEMU's device to learn drivers by, which reads and writes memory as it is told: 1234:11e8.
	edu)
		not_saved="$not_saved edu"
		more_devices="$more_devices -device edu,dma_mask=0xffffffff,bus=$bus"
		;;
	# Tables of how far each node's memory is: /sys/devices/system/node/node1/access0.
	hmat)
		features="$features,hmat=on"
		initiator=,initiator=0
		more_devices="$more_devices $(distance 0 10 10G) $(distance 1 100 1G)"
		;;
	# An IOMMU (VT-d), behind which devices of PCI are. Virtio's go past it.
	iommu)
		chipset=q35 bus=pcie.0
		more_devices="$more_devices -device intel-iommu"
		more_parameters="$more_parameters intel_iommu=on iommu=strict"
		;;
	# Memory of a device: BAR 2 of 1af4:1110, at 0000:00:1e.0, as tools/vm has it. (Of no master
	# no snapshot can be taken.)
	ivshmem)
		more_devices="$more_devices -object memory-backend-ram,id=shared,size=64M,share=on
			-device ivshmem-plain,memdev=shared,master=on,bus=$bus,addr=1e.0"
		;;
	# A module of a third node, which the kernel leaves offline: whoever writes "online" to
	# /sys/devices/system/node/node2/memory*/state adds it.
	dimm)
		slots=$((slots + 1))
		more_devices="$more_devices -numa node,nodeid=2$initiator
			-object memory-backend-ram,id=dimm,size=256M
			-device pc-dimm,memdev=dimm,node=2"
		[ -z "$initiator" ] || more_devices="$more_devices $(distance 2 200 500M)"
		more_parameters="$more_parameters memhp_default_state=offline"
		;;
	# Persistent memory without labels: /sys/bus/nd's namespace0.0 and namespace1.0. Its modules
	# come first, since CXL's take numbers of regions, too.
	nvdimm)
		features="$features,nvdimm=on"
		slots=$((slots + 2))
		more_devices="$more_devices -object memory-backend-ram,id=module,size=256M
			-device nvdimm,memdev=module
			-object memory-backend-ram,id=module1,size=128M
			-device nvdimm,memdev=module1"
		more_modules="nfit nd_pmem dax_pmem device_dax kmem $more_modules"
		;;
	# Bounce buffers, for all DMA that no IOMMU maps.
	swiotlb) more_parameters="$more_parameters swiotlb=force" ;;
	# A camera of the kernel's own: /dev/video0.
	vivid) more_modules="$more_modules vivid" ;;
	esac
}

# add_devices NAME...: each once, in the order of the names.
add_devices() {
	for name in $device_names; do
		case " $* " in
		*" $name "*) add_device "$name" ;;
		esac
	done
}

# add_wire listen:SOCKET | connect:SOCKET: a network card. What it sends goes to the machine at the
# other end of SOCKET, which listens before the other one starts. Both are of one kind, as
# tests/vm/snapshot.sh sees it: they get their addresses later.
# shellcheck disable=SC2034 # tests/vm/boot has them
add_wire() {
	case $1 in
	# Bound by its own name: SOCKET leads there.
	listen:*) server=on && ln -s "$work/wire" "${1#*:}" || return ;;
	connect:*) server=off && ln -s "${1#*:}" "$work/wire" || return ;;
	*)
		say "there is no wire '$1': give listen:SOCKET or connect:SOCKET"
		return 2
		;;
	esac
	more_devices="$more_devices
		-netdev stream,id=wire,server=$server,addr.type=unix,addr.path=$work/wire
		-device virtio-net-pci,netdev=wire,romfile=,bus=$bus"
}
