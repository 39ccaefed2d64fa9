/*
 * runner/tunnel/wire.h -- one connection between two nodes: frames over TLS, with queues that have a maximum. No call waits; for one thread.
 */
#pragma once

#include "crypto/tls_peer.h"
#include "runner/tunnel/frame.h"

struct wire;
/** Takes the connected socket over in any case. `calls`: this side has connected. `self` must live longer. */
RESULT wire_new(const struct tls_self *self, int fd, bool calls, struct wire **wire_out, struct error *err);
/** Whether both sides have proven their keys. */
bool wire_is_shaken(const struct wire *wire);
/** After that: the thumbprint of the other side's key. */
const char *wire_key(const struct wire *wire);

int wire_descriptor(const struct wire *wire);
/** What poll(2) waits for. */
short wire_events(const struct wire *wire);
/** Whether wire_go_on() would go on at once: more came than it had room for. */
bool wire_has_more(const struct wire *wire);
/** Goes on with the handshake, reads what has come, and sends what waits. False: it is over. */
bool wire_go_on(struct wire *wire);
/** The next frame that has come, a view until wire_go_on(). False: there is none now; *valid_out false: what came is no frame. */
bool wire_next(struct wire *wire, struct tunnel_frame *frame_out, bool *valid_out);

/** Lets a frame wait to be sent by wire_go_on(). False: more than `most` bytes would wait, so it is dropped. */
bool wire_put(struct wire *wire, enum tunnel_kind kind, struct bytes content, size_t most);
/** Bytes that wait. */
size_t wire_waiting(const struct wire *wire);
void wire_free(struct wire *wire);
DEFINE_OWNED(wire);
