/*
 * outgoing/stream.h -- a connection over TLS to another host whose protocol is not HTTP: bytes go out, and nothing is expected back.
 *
 * It has the rules of outgoing_call(): the address is checked when the socket is opened, certificates are checked, nothing comes from the
 * environment. A stream belongs to one thread.
 */
#pragma once

#include "outgoing/call.h"

struct outgoing_stream;

struct outgoing_peer {
    const char *host;            /* "siem.example:6514" */
    unsigned connect_s;          /* until the TLS handshake is complete */
    const atomic_bool *gives_up; /* once it is set, an attempt ends within a second; NULL: never */
};
/** *stream_out is NULL, and *outcome_out says why, if there is no connection. `outgoing` outlives the stream. */
RESULT outgoing_stream_open(struct outgoing *outgoing, const struct outgoing_peer *peer, struct outgoing_stream **stream_out,
                            struct outgoing_outcome *outcome_out, struct error *err) __attribute__((nonnull));
/**
 * Sends all bytes, and waits until the host of the peer has confirmed each of them (TCP). ERROR_UNAVAILABLE: the peer has closed the connection,
 * or took nothing for `silence_s`, or `gives_up` was set. Part of the bytes may have arrived then. The stream must be freed after a failure.
 */
RESULT outgoing_stream_send(struct outgoing_stream *stream, struct bytes bytes, unsigned silence_s, const atomic_bool *gives_up,
                            struct error *err) __attribute__((nonnull(1, 5)));
/** Whether the peer has not closed it, as far as is known here. */
bool outgoing_stream_is_open(struct outgoing_stream *stream);
void outgoing_stream_free(struct outgoing_stream *stream);
DEFINE_OWNED(outgoing_stream);
