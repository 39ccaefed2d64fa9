#include "gateway/http/listeners.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "base/bytes.h"
#include "base/text.h"

#define NAME_LETTERS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"

static bool read_port(struct bytes text, int *port_out)
{
    int port = 0;

    if (text.length == 0 || text.length > 5 || !text_consists_of(text, "0123456789")) return false;
    for (size_t i = 0; i < text.length; i++) port = 10 * port + (text.data[i] - '0');
    *port_out = port;
    return port > 0 && port <= 65535;
}

static bool read_one(struct bytes word, struct listener *listener)
{
    const uint8_t *sign = memchr(word.data, '=', word.length);
    const size_t length = sign == NULL ? 0 : (size_t)(sign - word.data);

    if (length < 2 || length > LISTENER_NAME_MAX || !text_consists_of((struct bytes){word.data, 1}, NAME_LETTERS) ||
        !text_consists_of((struct bytes){word.data, length}, NAME_LETTERS "._-"))
        return false;
    memcpy(listener->name, word.data, length);
    listener->name[length] = '\0';
    return read_port((struct bytes){sign + 1, word.length - length - 1}, &listener->port);
}

static bool is_new(const struct listeners *listeners, const struct listener *listener, int listen_port)
{
    for (size_t i = 0; i < listeners->count; i++)
        if (listeners->each[i].port == listener->port || strcmp(listeners->each[i].name, listener->name) == 0) return false;
    return listener->port != listen_port;
}

struct result listeners_parse(const char *text, int listen_port, struct listeners *listeners_out, struct error *err)
{
    static const char gaps[] = " ,";
    struct listeners listeners = {.count = 0};

    for (text += strspn(text, gaps); *text != '\0'; text += strspn(text, gaps)) {
        struct listener *listener = &listeners.each[listeners.count];
        const struct bytes word = {(const uint8_t *)text, strcspn(text, gaps)};
        if (listeners.count == LISTENERS_MAX) return failure(err, ERROR_INVALID, "listeners: at most %d", LISTENERS_MAX);
        if (!read_one(word, listener))
            return failure(err, ERROR_INVALID,
                           "listeners: %.*s: NAME=PORT, with at least two letters, digits, '.', '_' and '-' in the name",
                           (int)(word.length < 80 ? word.length : 80), text);
        if (!is_new(&listeners, listener, listen_port))
            return failure(err, ERROR_INVALID, "listeners: %.63s has the name or the port of another one", listener->name);
        listeners.count++;
        text += word.length;
    }
    *listeners_out = listeners;
    return SUCCESS;
}

static int port_of(int fd)
{
    struct sockaddr_storage address = {0};
    socklen_t length = sizeof address;

    if (getsockname(fd, (struct sockaddr *)&address, &length) != 0) return -1;
    if (address.ss_family == AF_INET6) return ntohs(((struct sockaddr_in6 *)(void *)&address)->sin6_port);
    return address.ss_family == AF_INET ? ntohs(((struct sockaddr_in *)(void *)&address)->sin_port) : -1;
}

const char *listeners_name_of(const struct listeners *listeners, int fd)
{
    const int port = listeners->count == 0 ? -1 : port_of(fd);

    for (size_t i = 0; i < listeners->count; i++)
        if (listeners->each[i].port == port) return listeners->each[i].name;
    return "";
}
