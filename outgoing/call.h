/*
 * outgoing/call.h -- the only function with which a program of this project calls another host: HTTPS, through libcurl. It also calls
 * a service behind a socket of this machine, for services that offer no TLS there.
 *
 * Rules that no caller can turn off: only HTTPS, except for such a socket; certificates are checked; redirects are not followed;
 * nothing comes from the environment, in particular no proxy. The address is checked when a socket is opened, and the connection goes
 * to that address, so a name that resolves differently later has no effect. docs/outgoing.md has the reasons, and the options of each
 * caller.
 *
 * Thread-safe. This function does not retry.
 */
#pragma once

#include <stdatomic.h>

#include "base/bytes.h"
#include "base/owned.h"
#include "outgoing/reach.h"

#define OUTGOING_PATH_SIZE 512   /* of a file of certificates */
#define OUTGOING_CA_MAX    65536 /* bytes of ca_text */

struct outgoing; /* the rules for a set of calls, and the idle connections that are kept for them */

struct outgoing_options {
    enum outgoing_reach reach;
    struct networks networks;     /* for OUTGOING_LISTED */
    const char *ca_file;          /* PEM, instead of the system's authorities; NULL or "": the system's */
    const char *ca_text;          /* PEM, instead of a file and of the system's authorities; NULL or "": none */
    const char *certificate_file; /* PEM, for client authentication, and its key; NULL or "": none */
    const char *key_file;
    const char *
        socket; /* path of a unix socket: every call goes there in plain HTTP, and URLs begin with http://. NULL or "": calls go to hosts */
    const char *proxy; /* "http://proxy.example:3128", used for a tunnel; NULL or "": none. Only with OUTGOING_ANY */
    bool takes_tls12;  /* otherwise TLS 1.3 only */
};
/** The files are read for each connection, so they may be replaced. ERROR_INVALID for a path that is too long, or for a
 *  proxy unless the reach is OUTGOING_ANY: a proxy would call addresses that nobody checks. ERROR_NO_MEMORY,
 *  ERROR_UNAVAILABLE. */
RESULT outgoing_new(const struct outgoing_options *options, struct outgoing **outgoing_out, struct error *err);

struct outgoing_header {
    const char *name, *value;
};

/** A body that is not in memory as a whole. */
struct outgoing_source {
    /** Writes at most `room` bytes; at least one byte while some are left. */
    RESULT (*read)(void *context, uint8_t *destination, size_t room, size_t *length_out, struct error *err);
    void *context;
    uint64_t length; /* OUTGOING_LENGTH_UNKNOWN: it goes in chunks until `read` writes 0 bytes */
};
#define OUTGOING_LENGTH_UNKNOWN UINT64_MAX

struct outgoing_limits {
    unsigned connect_s; /* until the TLS handshake is complete */
    unsigned silence_s; /* ends a call that stays slower than slowest_rate bytes a second for this many seconds */
    unsigned slowest_rate;
    unsigned whole_s;      /* the longest time of the whole call; 0: no limit */
    uint64_t answer_bytes; /* the most that the answer's body may have */
};

struct outgoing_request {
    const char *method, *url;
    const struct outgoing_header *headers;
    size_t header_count;
    bool with_body; /* send `body`, even if it is empty, or `source` if that is set */
    struct bytes body;
    const struct outgoing_source *source;
    bool is_repeatable; /* may be sent twice, if a kept connection ends before the answer; never with a source */
    struct outgoing_limits limits;
    const atomic_bool *gives_up; /* once it is set, the call ends within a second; NULL: never */

    /** Gets the server's certificate (PEM), which is trusted and has the name of the URL, before anything is sent. False: OUTGOING_UNTRUSTED. NULL: nobody looks at
     *  it further. With it each call has a connection of its own. */
    bool (*knows)(void *context, struct bytes pem);
    /** Called for each header line of the answer, also of an interim answer. */
    void (*head)(void *context, struct bytes line);
    /** Called for each piece of the answer's body, with the answer's status. */
    RESULT (*take)(void *context, long status, struct bytes piece, struct error *err);
    void *context;
};

enum outgoing_end {
    OUTGOING_ANSWERED,  /* a complete answer came */
    OUTGOING_FORBIDDEN, /* the name resolves to no address that may be called: nothing was sent */
    OUTGOING_MALFORMED, /* the URL is malformed: nothing was sent */
    OUTGOING_UNTRUSTED, /* the peer's certificate, or a file of ours, is not valid, or `knows` does not know it: nothing was sent */
    OUTGOING_NOT_AGAIN, /* the connection ended before the answer; the request may have taken effect, so it must not be repeated */
    OUTGOING_TOO_LARGE, /* the answer is too large */
    OUTGOING_GIVEN_UP,
    OUTGOING_BROKEN, /* anything else: no connection, a time limit, a truncated answer; the request may have taken effect */
};

struct outgoing_outcome {
    enum outgoing_end end;
    bool was_sent;    /* at least a part of the request: it may have taken effect */
    long status;      /* for OUTGOING_ANSWERED, else 0 */
    int64_t length;   /* of the body, from the header; -1 if it has none */
    char reason[160]; /* why there is no answer, for a person */
};

/** Makes one exchange. Fails only for local reasons: ERROR_NO_MEMORY, ERROR_INVALID for a header with a control
 *  character, or a failure of `read` or `take`. Everything that the peer does wrong is an outcome, and no failure. */
RESULT outgoing_call(struct outgoing *outgoing, const struct outgoing_request *request, struct outgoing_outcome *outcome_out,
                     struct error *err);

void outgoing_free(struct outgoing *outgoing);
DEFINE_OWNED(outgoing);
