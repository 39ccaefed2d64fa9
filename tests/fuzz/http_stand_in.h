/*
 * tests/fuzz/http_stand_in.h -- stands in for client/http.c, without a connection. For one source file of a program only: it defines what
 * client/http.h declares. Each target defines http_call(), which answers.
 */
#pragma once

#include <stdlib.h>

#include "base/memory.h"
#include "client/http.h"

struct http {
    int unused;
};

struct result http_new(const struct http_options *options, struct http **http_out, struct error *err)
{
    (void)options;
    *http_out = memory_zeroed(1, sizeof **http_out);
    return *http_out == NULL ? failure(err, ERROR_NO_MEMORY, "no memory for a connection") : SUCCESS;
}

void http_free(struct http *http)
{
    free(http);
}

void http_give_up_when(struct http *http, const atomic_bool *gives_up)
{
    (void)http;
    (void)gives_up;
}

void http_use_key(struct http *http, const struct ecdsa_key *key)
{
    (void)http;
    (void)key;
}

void http_share_key(struct http *http, const struct http *from)
{
    (void)http;
    (void)from;
}

const char *http_host(const struct http *http)
{
    (void)http;
    return "registry.example";
}
