/*
 * storage/s3_network.h -- which addresses a bucket's endpoint may resolve to.
 *
 * A name of the configuration, or of whoever answers for it in DNS, must not make a gateway call what is near it: link-local
 * addresses and those where clouds give credentials to machines are refused, unless the operator lists them. With a list nothing
 * but its networks is called.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "base/bytes.h"

#define S3_NETWORKS_MAX 16 /* of one region: an object store has a few */

struct s3_network {
    uint8_t address[16]; /* IPv4 as ::ffff:a.b.c.d */
    unsigned bits;       /* of the 128 */
};
struct s3_networks {
    size_t count; /* 0: any but those that are never called */
    struct s3_network each[S3_NETWORKS_MAX];
};

/** "10.1.0.0/16, 2001:db8::/32", or "". ERROR_INVALID for anything else, also with bits behind a prefix; ERROR_LIMIT. */
RESULT s3_networks_parse(const char *text, struct s3_networks *networks_out, struct error *err);
bool s3_networks_allow(const struct s3_networks *networks, const struct sockaddr *address);
