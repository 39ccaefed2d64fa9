/*
 * client/provider/callback.h -- the loopback port where the browser comes back from the issuer (RFC 8252 section 7.3).
 *
 * It listens on 127.0.0.1 only, and any program of this machine can call it, so nothing counts but a request with the secret state of this login
 * (RFC 6749 section 10.12). Other requests get an answer and change nothing.
 */
#pragma once

#include "base/bytes.h"
#include "base/owned.h"
#include "client/provider/metadata.h"

#define CALLBACK_PATH      "/callback"
#define CALLBACK_HEAD_MAX  8192
#define CALLBACK_STATE     43 /* letters: 256 random bits */
#define CALLBACK_CODE_SIZE 4097

/** What the issuer sent with the browser. */
struct callback {
    char code[CALLBACK_CODE_SIZE];    /* "": none */
    char state[CALLBACK_STATE + 1];   /* a longer one is malformed, because it is not ours */
    char issuer[PROVIDER_URL_SIZE];   /* RFC 9207; "": none */
    char error[64], description[121]; /* may have any letters */
};
/** Reads the head of a request. False: another path or method, no state, or a parameter that is malformed, too long or sent twice (RFC 6749 section 3.1). */
bool callback_parse(struct bytes head, struct callback *callback_out);

struct callback_listener;
/** Listens. `port` 0: any. ERROR_CONFLICT: another program has the port. */
RESULT callback_listen(unsigned port, struct callback_listener **listener_out, struct error *err);
/** "http://127.0.0.1:49152/callback" */
const char *callback_address(const struct callback_listener *listener);
/** Waits for the request with this state, and answers it with a page for the person. ERROR_DENIED: none came in time. */
RESULT callback_wait(struct callback_listener *listener, const char *state, int64_t longest_ms, struct callback *callback_out,
                     struct error *err);
void callback_listener_free(struct callback_listener *listener);
DEFINE_OWNED(callback_listener);
