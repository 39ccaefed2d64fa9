#include "runner/sandbox/proof.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/file.h"
#include "base/network.h"
#include "base/text.h"

#define TEXT_MAX 65536 /* of /etc/resolv.conf and /proc/net/route: more than a machine has */

struct list {
    struct proof_address *addresses;
    size_t count;
};

static void add(struct list *list, const char *address, const char *port)
{
    if (list->count == PROOF_ADDRESSES_MAX) return;
    struct proof_address *added = &list->addresses[list->count++];
    (void)snprintf(added->address, sizeof added->address, "%s", address);
    (void)snprintf(added->port, sizeof added->port, "%s", port);
}

/* resolv.conf(5): "nameserver" and an address, one a line. */
static void add_name_servers(struct list *list, const char *text)
{
    static const char word[] = "nameserver";

    for (const char *line = text; line != NULL && *line != '\0';
         line = strchr(line, '\n') == NULL ? NULL : strchr(line, '\n') + 1) {
        char address[PROOF_TEXT_SIZE];
        struct network server;
        if (strncmp(line, word, sizeof word - 1) != 0) continue;
        const char *at = line + sizeof word - 1 + strspn(line + sizeof word - 1, " \t");
        (void)snprintf(address, sizeof address, "%.*s", (int)strcspn(at, " \t\n%"), at);
        if (network_of_address(address, &server) && !network_is_loopback(&server)) add(list, address, "53");
    }
}

/* proc(5): "IFACE DESTINATION GATEWAY ...", each address eight hex digits in the order of the machine's memory. */
static void add_gateways(struct list *list, const char *text)
{
    for (const char *line = strchr(text, '\n'); line != NULL && line[1] != '\0'; line = strchr(line + 1, '\n')) {
        const char *destination = line + 1 + strcspn(line + 1, "\t\n");
        uint8_t bytes[4];
        char digits[9], address[PROOF_TEXT_SIZE];
        if (strncmp(destination, "\t00000000\t", 10) != 0) continue;
        for (size_t i = 0; i < 8; i++)
            digits[i] = (char)(destination[10 + i] >= 'A' ? destination[10 + i] | 0x20 : destination[10 + i]);
        digits[8] = '\0';
        if (!text_from_hex(bytes_of_text(digits), bytes, sizeof bytes)) continue;
        (void)snprintf(address, sizeof address, "%u.%u.%u.%u", bytes[3], bytes[2], bytes[1], bytes[0]);
        if (strcmp(address, "0.0.0.0") != 0) add(list, address, "80");
    }
}

size_t proof_addresses(const struct proof_address *extra, size_t extra_count, struct proof_address *addresses)
{
    struct list list = {.addresses = addresses};
    struct buffer OWNED_BUFFER servers = BUFFER(TEXT_MAX), routes = BUFFER(TEXT_MAX);
    struct error none;

    add(&list, "169.254.169.254", "80"); /* the metadata of most clouds, and that of AWS by IPv6 */
    add(&list, "fd00:ec2::254", "80");
    add(&list, "192.0.2.1", "443"); /* RFC 5737: any address of the internet */
    for (size_t i = 0; i < extra_count; i++) add(&list, extra[i].address, extra[i].port);
    if (file_read("/etc/resolv.conf", &servers, &none).ok) add_name_servers(&list, buffer_text(&servers));
    if (file_read("/proc/net/route", &routes, &none).ok && BYTE_ORDER == LITTLE_ENDIAN) add_gateways(&list, buffer_text(&routes));
    return list.count;
}

struct result proof_channel(int ends_out[2], struct error *err)
{
    const int on = 1;
    int ends[2];

    if (fault_is_due(FAULT_FILE) || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
        return failure(err, ERROR_UNAVAILABLE, "no sockets for a sandbox: %s", strerror(errno));
    if (setsockopt(ends[0], SOL_SOCKET, SO_PASSCRED, &on, sizeof on) != 0) {
        (void)close(ends[0]);
        (void)close(ends[1]);
        return failure(err, ERROR_UNAVAILABLE, "a socket does not tell the sender of a message: %s", strerror(errno));
    }
    ends_out[0] = ends[0];
    ends_out[1] = ends[1];
    return SUCCESS;
}

static pid_t sender_of(struct msghdr *header)
{
    struct ucred who;
    const struct cmsghdr *part = CMSG_FIRSTHDR(header);

    if (part == NULL || part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_CREDENTIALS) return 0;
    memcpy(&who, CMSG_DATA(part), sizeof who);
    return who.pid;
}

struct result proof_receive(int channel, int patience_ms, struct proof_message *message_out, struct error *err)
{
    struct proof_message message = {.sender = 0};
    union {
        struct cmsghdr aligned;
        char space[CMSG_SPACE(sizeof(struct ucred))];
    } control;
    struct iovec piece = {.iov_base = message.text, .iov_len = sizeof message.text - 1};
    struct msghdr header = {
        .msg_iov = &piece, .msg_iovlen = 1, .msg_control = control.space, .msg_controllen = sizeof control.space};
    struct pollfd polled = {.fd = channel, .events = POLLIN};

    if (poll(&polled, 1, patience_ms) <= 0) return failure(err, ERROR_UNAVAILABLE, "a sandbox does not answer");
    const ssize_t length = recvmsg(channel, &header, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
    if (length < 0) return failure(err, ERROR_UNAVAILABLE, "a sandbox can't be heard: %s", strerror(errno));
    message.text[length] = '\0';
    message.is_end = length == 0;
    message.sender = message.is_end ? 0 : sender_of(&header);
    *message_out = message;
    return SUCCESS;
}
