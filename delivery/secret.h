/*
 * delivery/secret.h -- the key with which deliveries to a webhook are signed (Standard Webhooks: docs/delivery.md).
 *
 * It is derived from a key that sijil-keyd makes, and that the database has wrapped. Each new key has the next number. So nothing but the number
 * is stored.
 */
#pragma once

#include "audit/permit.h"
#include "crypto/keyd_client.h"
#include "storage/pg.h"

#define SINK_SECRET_SIZE      32
#define SINK_SECRET_TEXT_SIZE 64 /* "whsec_" or "whpk_", 44 of base64, '\0' */

struct sink_key {
    const char *sink;
    int32_t number; /* from 1 */
    bool signs_ed25519;
};
/** For the delivery. Makes the key, if a kill came between the event of its number and the key. Connections need audit_subject_table. */
RESULT sink_secret_open(struct keyd_client *keyd, struct pg *pg, const struct sink_key *wanted, struct secret **secret_out,
                        struct error *err) __attribute__((nonnull));

/** What the owner of the peer needs: the shared secret ("whsec_..."), or the public key ("whpk_..."). Wipe it. */
struct sink_secret_text {
    char text[SINK_SECRET_TEXT_SIZE];
};
/** Makes the key, under a permit for sink.secret of the registry. */
RESULT sink_secret_make(const struct permit *permit, struct keyd_client *keyd, struct pg *pg, const struct sink_key *wanted,
                        struct sink_secret_text *text_out, struct error *err) __attribute__((nonnull));
/** Appends " v1,..." or " v1a,...": the signature of a message. */
RESULT sink_secret_sign(const struct secret *secret, bool signs_ed25519, struct bytes message, struct buffer *signatures,
                        struct error *err) __attribute__((nonnull));
