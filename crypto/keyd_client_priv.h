/*
 * crypto/keyd_client_priv.h -- one call to sijil-keyd. A call holds a connection of the pool until the reply is copied.
 */
#pragma once

#include "crypto/keyd_protocol.h"

struct keyd_connection;

struct keyd_call {
    struct keyd_client *client;
    struct keyd_connection *connection;
    struct keyd_reply reply; /* its views point into the connection's memory */
};

/** Wipes the message and returns the connection to the pool. Legal for a call that never began. */
void keyd_call_done(struct keyd_call *call);
#define OWNED_CALL __attribute__((cleanup(keyd_call_done))) struct keyd_call

/** Sends `request` and waits for its reply. A failure that keyd reports is returned as the call's failure. */
RESULT keyd_call(struct keyd_client *client, struct keyd_request *request, struct keyd_call *call, struct error *err);
