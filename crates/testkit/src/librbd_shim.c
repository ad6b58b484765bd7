/* librbd.so.1 with faults, for tests: the functions below replace those of the library of the host, which this one needs. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static int has_fault(const char *name) {
	const char *fault = getenv("UEXT4_RBD_FAULT");
	return fault && strcmp(fault, name) == 0;
}

/* no-blocklist: no client is ever blocklisted; no-renewal: one is, once. The caller takes the others for done. */
int rados_blocklist_add(void *cluster, char *address, uint32_t seconds) {
	static int calls;
	int (*next)(void *, char *, uint32_t) = dlsym(RTLD_NEXT, "rados_blocklist_add");
	int is_first = __atomic_fetch_add(&calls, 1, __ATOMIC_RELAXED) == 0;
	if (has_fault("no-blocklist") || (has_fault("no-renewal") && !is_first))
		return 0;
	return next(cluster, address, seconds);
}

/* late-owner: the first caller finds no owner, as if another client acquired the lock right after. */
int rbd_lock_get_owners(void *image, int *mode, char **owners, size_t *count) {
	static int calls;
	int (*next)(void *, int *, char **, size_t *) = dlsym(RTLD_NEXT, "rbd_lock_get_owners");
	if (has_fault("late-owner") && __atomic_fetch_add(&calls, 1, __ATOMIC_RELAXED) == 0)
		return -ENOENT;
	return next(image, mode, owners, count);
}
