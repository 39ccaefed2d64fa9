#include "outgoing/addresses.h"

#include <netdb.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "base/network.h"

#define NAME_SIZE 256 /* a DNS name has at most 253 characters */

/* NULL without a port. */
static const char *port_of(const char *host)
{
    const char *colon = strrchr(host, ':'), *bracket = strrchr(host, ']');
    const bool is_port = colon != NULL && (bracket == NULL ? strchr(host, ':') == colon : colon > bracket);

    return is_port ? colon + 1 : NULL;
}

static void name_of(const char *host, const char *port, char name[NAME_SIZE])
{
    size_t length = port == NULL ? strlen(host) : (size_t)(port - 1 - host);

    if (length >= 2 && host[0] == '[' && host[length - 1] == ']') host++, length -= 2;
    (void)snprintf(name, NAME_SIZE, "%.*s", (int)length, host);
}

size_t outgoing_addresses(const char *host, struct outgoing_address *addresses, size_t room)
{
    const struct addrinfo wanted = {.ai_socktype = SOCK_STREAM};
    const char *port = port_of(host);
    struct addrinfo *found = NULL;
    char name[NAME_SIZE];
    size_t count = 0;

    name_of(host, port, name);
    if (getaddrinfo(name, port == NULL ? "443" : port, &wanted, &found) != 0) return 0;
    for (const struct addrinfo *at = found; at != NULL && count < room; at = at->ai_next) {
        struct outgoing_address *address = &addresses[count];
        struct network called;
        if (getnameinfo(at->ai_addr, at->ai_addrlen, address->address, sizeof address->address, address->port,
                        sizeof address->port, NI_NUMERICHOST | NI_NUMERICSERV) == 0 &&
            network_of_socket(at->ai_addr, &called) && !network_is_loopback(&called))
            count++;
    }
    freeaddrinfo(found);
    return count;
}
