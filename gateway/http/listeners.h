/*
 * gateway/http/listeners.h -- further ports of a gateway, each with a name, by which the signed policy set says where its clients are.
 *
 * Which port has which name is the operator's word: a network of one place, and nothing else, must reach it.
 */
#pragma once

#include <stddef.h>

#include "base/result.h"

#define LISTENERS_MAX     8 /* each has event threads of its own */
#define LISTENER_NAME_MAX 63

struct listeners {
    size_t count;
    struct listener {
        char name[LISTENER_NAME_MAX + 1]; /* as an identifier of a policy set */
        int port;
    } each[LISTENERS_MAX];
};
/** "ae-front=8444 sa-front=8445", with spaces or commas between; "" is none. ERROR_INVALID. `listen_port` is no further port. */
RESULT listeners_parse(const char *text, int listen_port, struct listeners *listeners_out, struct error *err);
/** The name of the port that a TCP connection has come to; "": none of these. */
const char *listeners_name_of(const struct listeners *listeners, int fd);
