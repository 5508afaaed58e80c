// SPDX-License-Identifier: MIT
/* Refuses pointers to no object, and objects of another process. */
#include "base/object.h"

int object_refuse(const struct hm_object *object, enum object_kind kind)
{
	static const struct {
		enum object_kind kind;
		const char *name;
	} names[] = {
#define OBJECT_NAME(kind, number, name) { OBJECT_##kind, name },
		OBJECT_KINDS(OBJECT_NAME)
#undef OBJECT_NAME
	};
	const char *name = "object";
	size_t i;

	for (i = 0; i < ARRAY_SIZE(names); i++)
		if (names[i].kind == kind)
			name = names[i].name;
	if (!object)
		return err_set(-EINVAL, "the %s is NULL", name);
	if (object->kind != (uint32_t)kind)
		return err_set(-EINVAL, "%p is no %s: freed already, or something else",
			       (const void *)object, name);
	return err_set(-EOWNERDEAD,
		       "this %s belongs to the parent process: after fork() the "
		       "child opens its own",
		       name);
}
