#include "authz/lease_name.h"

#include <inttypes.h>
#include <stdio.h>

void lease_name(const struct uuid *run, int64_t attempt, int64_t node, char detail_out[RESOURCE_DETAIL_MAX + 1])
{
    char id[UUID_TEXT_SIZE];

    uuid_format(run, id);
    (void)snprintf(detail_out, RESOURCE_DETAIL_MAX + 1, "%s %" PRId64 " %" PRId64, id, attempt, node);
}
