/*
 * base/network.h -- networks of IP addresses: read, compared, widened, written.
 *
 * A single address is a network of 128 bits. IPv4 is stored in IPv6 as ::ffff:a.b.c.d, so an address is the same in either
 * family. Rule: a network of one family never contains an address of the other; ::/0 is all of IPv6 and no IPv4.
 */
#pragma once

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "base/bytes.h"

#define NETWORK_TEXT_SIZE (INET6_ADDRSTRLEN + 4) /* an address and "/128" */
#define NETWORKS_MAX      16                     /* of one setting */

struct network {
    uint8_t address[16]; /* IPv4 as ::ffff:a.b.c.d; zeros after the prefix */
    unsigned bits;       /* of the 128 */
};

/** The network of one address. False: NULL, or neither IPv4 nor IPv6. */
bool network_of_socket(const struct sockaddr *address, struct network *network_out);
/** Reads "192.0.2.1" or "2001:db8::1", without a prefix. False: anything else. */
bool network_of_address(const char *text, struct network *network_out);

enum network_form { NETWORK_GOOD, NETWORK_WITHOUT_PREFIX, NETWORK_MALFORMED, NETWORK_WITH_BITS_BEHIND };
/** Reads "10.1.0.0/16" or "2001:db8::/32". *network_out is written on NETWORK_GOOD only. */
enum network_form network_read(struct bytes text, struct network *network_out);

bool network_is_ipv4(const struct network *network);
bool network_holds(const struct network *network, const struct network *other);
/** Keeps at most `ipv4_bits` of the 32 or `ipv6_bits` of the 128 bits: the network that an address is in. */
void network_widen(struct network *network, unsigned ipv4_bits, unsigned ipv6_bits);

/** The address that is called in the end: an IPv6 address that leads to an IPv4 one is that one (NAT64, RFC 6052; 6to4, RFC 3056). */
struct network network_real(const struct network *address);
/**
 * Whether nobody calls this address who was given it by somebody else: no machine has it (unspecified, multicast, broadcast), it is of one link
 * alone, or clouds give addresses and credentials to their machines there. Of network_real(). Loopback is none of them.
 */
bool network_is_special(const struct network *address);
/** 127.0.0.0/8 or ::1. */
bool network_is_loopback(const struct network *address);

/** As "10.1.0.0", and as "10.1.0.0/16". */
void network_write_address(const struct network *network, char text_out[INET6_ADDRSTRLEN]);
void network_write(const struct network *network, char text_out[NETWORK_TEXT_SIZE]);

struct networks {
    size_t count;
    struct network each[NETWORKS_MAX];
};
/** Reads "10.1.0.0/16, 2001:db8::/32", or "". Messages begin with `setting`. ERROR_INVALID for anything else; ERROR_LIMIT. */
RESULT networks_parse(const char *setting, const char *text, struct networks *networks_out, struct error *err);
bool networks_hold(const struct networks *networks, const struct network *other);
