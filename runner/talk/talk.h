/*
 * runner/talk/talk.h -- a talk: one connection between the agent of a pod and its runner (docs/kubernetes.md).
 *
 * Messages over TLS 1.3: a letter that says what it is, the length in four bytes (big-endian), the content. The runner's key is made for one
 * talk; the agent knows the SHA-256 of this key. Nothing else is trusted: no authority, no name. The agent has no key: it sends the token of its pod first.
 *
 *     agent: token                          runner: check ADDRESS PORT ...      (the token was reviewed)
 *     agent: closed VERSION MEMORY CPU N [UUID TYPE BYTES DRIVER]...
 *                                           runner: file PATH MODE SIZE, piece ..., whole
 *            | refused WHY                  runner: go COUNT PROCESSES TASKS GRACE ARGUMENT ... NAME=VALUE ...
 *     agent: log, beat, use, devices [PERCENT BYTES]..., ended ...
 *                                           runner: stop, kill, walk FILES BYTES
 *     agent: file, piece ..., whole         runner: bye
 *            | broken WHY
 */
#pragma once

#include "base/bytes.h"
#include "base/owned.h"

#define TALK_MESSAGE_MAX ((size_t)256 << 10) /* the command of an order has at most 64 KiB */
#define TALK_TEXTS_MAX   1024
#define TALK_PIN_SIZE    65    /* hex of the SHA-256 of a public key (SubjectPublicKeyInfo), and '\0' */
#define TALK_SILENCE_MS  30000 /* for the rest of a message that has begun, and until a send is taken */

enum talk_kind {
    TALK_END = 0, /* the other side has gone */
    TALK_TOKEN = 't',
    TALK_CHECK = 'c',
    TALK_CLOSED = 's',
    TALK_REFUSED = 'r',
    TALK_FILE = 'f',
    TALK_PIECE = 'p',
    TALK_WHOLE = 'w',
    TALK_GO = 'g',
    TALK_LOG = 'l',
    TALK_BEAT = 'b',
    TALK_USE = 'u',
    TALK_DEVICES = 'd',
    TALK_ENDED = 'e',
    TALK_STOP = 'q',
    TALK_KILL = 'k',
    TALK_WALK = 'o',
    TALK_BROKEN = 'x',
    TALK_BYE = 'y'
};

struct talk_message {
    enum talk_kind kind;
    struct buffer content; /* `TALK_MESSAGE`; belongs to the caller, and is used again for the next message */
    size_t count;          /* talk_texts() */
    const char *texts[TALK_TEXTS_MAX + 1];
};
#define TALK_MESSAGE ((struct talk_message){.content = BUFFER(TALK_MESSAGE_MAX)})

struct talk;
/** ERROR_UNAVAILABLE: the other side has gone, or takes nothing for TALK_SILENCE_MS. */
RESULT talk_send(struct talk *talk, enum talk_kind kind, struct bytes content, struct error *err);
/** The texts, each with its '\0'. */
RESULT talk_send_texts(struct talk *talk, enum talk_kind kind, const char *const *texts, size_t count, struct error *err);
/**
 * Waits at most `patience_ms` for a message to begin (ERROR_NOT_FOUND: none did). TALK_END is no error. ERROR_INVALID: what came is no message;
 * ERROR_UNAVAILABLE: it stopped in the middle.
 */
RESULT talk_receive(struct talk *talk, int64_t patience_ms, struct talk_message *message, struct error *err);
/** Splits the content into texts, for a kind that has them. ERROR_INVALID. */
RESULT talk_texts(struct talk_message *message, size_t least, struct error *err);
/** For poll(2), when talk_is_ready() is false. */
int talk_descriptor(const struct talk *talk);
/** Whether a part of a message was read already. */
bool talk_is_ready(const struct talk *talk);
/** Whether an agent can connect to it: an IP address. */
bool talk_is_address(const char *text);
/** Closes it; the other side sees TALK_END. */
void talk_free(struct talk *talk);
DEFINE_OWNED(talk);

/* ---- the runner's side ---- */

struct talk_door;
/** A new key, and the first port from `port` on (at most `ports` of them) that is free. ERROR_CONFLICT: none is. */
RESULT talk_door_open(const char *address, unsigned port, unsigned ports, struct talk_door **door_out, struct error *err);
unsigned talk_door_port(const struct talk_door *door);
/** TALK_PIN_SIZE. */
const char *talk_door_pin(const struct talk_door *door);
#define TALK_CALLERS_MAX 32    /* heard side by side; for one more, the one that came first goes */
#define TALK_MEET_MS     10000 /* for a caller's handshake and its first message */
#define TALK_FAIR_MS     500   /* that each caller has, however many come after it */
#define TALK_FIRST_MAX   16384 /* bytes of the first message: a token */
/**
 * Waits at most `patience_ms` for a caller that has sent its first message. Nobody knows the callers yet, so none of them keeps the others waiting. The
 * others stay at the door. ERROR_NOT_FOUND: none did.
 */
RESULT talk_hear(struct talk_door *door, int64_t patience_ms, struct talk_message *message, struct talk **talk_out,
                 struct error *err);
void talk_door_free(struct talk_door *door);
DEFINE_OWNED(talk_door);

/* ---- the agent's side ---- */

/** ERROR_DENIED: the other side does not have the key with this pin. ERROR_UNAVAILABLE. */
RESULT talk_call(const char *address, const char *port, const char *pin, struct talk **talk_out, struct error *err);
