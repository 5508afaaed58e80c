// SPDX-License-Identifier: MIT
/* DAX devices as sysfs shows them [Documentation/ABI/testing/sysfs-bus-dax]. */
#include "tier/dax.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>

#include "base/sys.h"
#include "base/util.h"
#include "tier/persist.h"

/* The bus is the only one that has devices with a target node and an alignment. */
static bool is_dax(dev_t number)
{
	char path[64], target[512];
	ssize_t n;

	snprintf(path, sizeof(path), "/sys/dev/char/%u:%u", major(number), minor(number));
	n = sys_readlink(path, target, sizeof(target) - 1);
	if (n <= 0)
		return false;
	target[n] = '\0';
	return strstr(target, "/dax") != NULL;
}

bool dax_facts_of(dev_t number, struct dax_facts *ret_facts)
{
	const struct device_number device = { false, number };
	struct dax_facts facts = { .number = number, .node = -1 };
	char text[32];

	if (!is_dax(number) || !device_number_attribute(device, "size", &facts.size) ||
	    !facts.size)
		return false;
	/* Kernels before 5.10 do not show it: 2 MiB is what they have. */
	if (!device_number_attribute(device, "align", &facts.align) || !facts.align ||
	    facts.align & (facts.align - 1))
		facts.align = MIB(2);
	if (device_attribute(device, "numa_node", text, sizeof(text)))
		facts.node = (int32_t)strtol(text, NULL, 10);
	facts.persist = persist_of_device(device);
	snprintf(facts.made_of, sizeof(facts.made_of), "%s, without a file system",
		 facts.persist ? "persistent memory" : "memory of a device");
	*ret_facts = facts;
	return true;
}
