#include "gateway/http/proxy_head.h"

#include <netinet/in.h>
#include <string.h>

static const uint8_t signature[12] = {0x0d, 0x0a, 0x0d, 0x0a, 0x00, 0x0d, 0x0a, 0x51, 0x55, 0x49, 0x54, 0x0a};

#define COMMAND_LOCAL 0x20 /* version 2 in the upper half */
#define COMMAND_PROXY 0x21
#define TCP_IPV4      0x11
#define TCP_IPV6      0x21

/* Bytes of the addresses. 0: a family that is not accepted. */
static size_t size_of_addresses(uint8_t family)
{
    return family == TCP_IPV4 ? 12 : family == TCP_IPV6 ? PROXY_HEAD_ADDRESSES : 0;
}

/* The head is refused at the first byte that is wrong, so that nothing waits for the rest of something else. */
static const char *problem(const struct proxy_head *head)
{
    const size_t seen = head->count < sizeof signature ? head->count : sizeof signature;

    if (memcmp(head->bytes, signature, seen) != 0) return "it does not begin with the signature of version 2";
    if (head->count < PROXY_HEAD_FIXED) return NULL;
    const uint8_t command = head->bytes[12], family = head->bytes[13];
    if (command != COMMAND_LOCAL && command != COMMAND_PROXY) return "its command is neither LOCAL nor PROXY of version 2";
    if (head->length > PROXY_HEAD_MAX) return "it is too long";
    if (command == COMMAND_LOCAL) return NULL;
    if (size_of_addresses(family) == 0) return "its client is not one of TCP over IPv4 or IPv6";
    return head->length < PROXY_HEAD_FIXED + size_of_addresses(family) ? "it is shorter than its addresses" : NULL;
}

size_t proxy_head_wants(const struct proxy_head *head)
{
    if (problem(head) != NULL) return 0;
    return (head->length == 0 ? PROXY_HEAD_FIXED : head->length) - head->count;
}

void proxy_head_take(struct proxy_head *head, const uint8_t *bytes, size_t size)
{
    const size_t room = head->count < sizeof head->bytes ? sizeof head->bytes - head->count : 0;

    memcpy(head->bytes + head->count, bytes, size < room ? size : room);
    head->count += size;
    if (head->length == 0 && head->count >= PROXY_HEAD_FIXED)
        head->length = PROXY_HEAD_FIXED + ((size_t)head->bytes[14] << 8) + head->bytes[15];
}

static void read_client(const struct proxy_head *head, struct sockaddr_storage *client_out)
{
    const uint8_t *at = head->bytes + PROXY_HEAD_FIXED;
    struct sockaddr_in four = {.sin_family = AF_INET};
    struct sockaddr_in6 six = {.sin6_family = AF_INET6};

    memset(client_out, 0, sizeof *client_out);
    if (head->bytes[13] == TCP_IPV4) {
        memcpy(&four.sin_addr, at, 4);
        memcpy(&four.sin_port, at + 8, 2);
        memcpy(client_out, &four, sizeof four);
    } else {
        memcpy(&six.sin6_addr, at, 16);
        memcpy(&six.sin6_port, at + 32, 2);
        memcpy(client_out, &six, sizeof six);
    }
}

enum proxy_head_end proxy_head_end(const struct proxy_head *head, struct sockaddr_storage *client_out, const char **why_out)
{
    *why_out = problem(head);
    if (*why_out != NULL) return PROXY_HEAD_WRONG;
    if (head->length == 0 || head->count < head->length) return PROXY_HEAD_COMES;
    if (head->bytes[12] == COMMAND_LOCAL) return PROXY_HEAD_OWN;
    read_client(head, client_out);
    return PROXY_HEAD_CLIENT;
}
