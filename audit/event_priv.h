/*
 * audit/event_priv.h -- from a record to the leaf and the sealed payload of its event.
 */
#pragma once

#include "audit/format/leaf.h"
#include "audit/permit_priv.h"
#include "audit/sequencer.h"
#include "audit/subject_priv.h"
#include "audit/tally_priv.h"

/** Who the subject of requests without a credential is: a day's worth of addresses is erased with one key. */
#define ANONYMOUS_ISSUER "sijil:anonymous"
/** And of this registry's own robots, whose principals name no issuer. */
#define REGISTRY_ISSUER  "sijil:registry"

/** Events that the sequencer adds by itself. */
enum own_event { OWN_NONE, OWN_BURST_OPEN, OWN_BURST_CLOSE, OWN_REFUSED, OWN_UNRECORDED, OWN_CLOCK_STEP };

struct event {
    struct record *record; /* NULL: the sequencer's own */
    enum own_event own;
    uint64_t count;        /* of OWN_*; the bound of OWN_BURST_OPEN */
    uint64_t opened;       /* of OWN_BURST_CLOSE: the opening's sequence number */
    struct burst *burst;   /* of OWN_BURST_* */
    const char *organisation; /* of OWN_BURST_*: whose requests these are; "" */
    const struct tally *tally; /* NULL, or what the payload says ... */
    const struct audit_subject *sealer; /* ... and whose key seals it */
    int64_t stepped_ms;    /* of OWN_CLOCK_STEP: in sum; `count` is how often */

    enum action action;    /* of the first target */
    enum outcome outcome;
    bool has_failed;       /* the change: `error` says why */
    struct error error;
    struct permit *permit; /* given to the record once the event is durable */

    struct leaf_source source;
    uint64_t sequence;
    bool has_payload;
    uint8_t salt[LEAF_SALT_SIZE], commitment[32];
    size_t box_at, box_length;   /* in the group's buffer */
    size_t leaf_at, leaf_length; /* likewise */
    struct merkle_hash hash;
    size_t key_count;
    uint32_t keys[LEAF_KEYS_MAX]; /* places in the group's table, in the order of the leaf's keys */
};

/** "allowed", "denied", "failed", "completed". */
const char *outcome_name(enum outcome outcome);

/** Takes what the record says: targets, outcome, permit for an allowing decision. ERROR_NO_MEMORY. */
RESULT event_of_record(struct record *record, struct event *event_out, struct error *err);
/** Releases what event_of_record() made and nobody took. */
void event_done(struct event *event);

/** Tells the event's permit who acts in which request, for later events under it. */
void event_name_permit(struct event *event);

/** Text from outside may hold anything: copies it as printable ASCII without what would be escaped. Its length. */
size_t event_plain_text(char *place, size_t room, const char *text);

/** Fills in everything but sequence, time and ordinals. Text from outside is made printable ASCII. */
void event_fill_leaf(const struct event *event, struct leaf *leaf_out);

/** Draws a salt, seals the payload under `subject`, appends the box; fills in salt, commitment and place. */
RESULT event_seal_payload(struct event *event, const struct audit_subject *subject, const char *origin,
                          struct buffer *boxes, struct error *err);
/** A sealed payload as it is stored. */
struct sealed_payload {
    const uint8_t *subject_key; /* SUBJECT_KEY_SIZE bytes */
    const uint8_t *salt;        /* LEAF_SALT_SIZE bytes */
    struct bytes box;
    const char *origin;
};
/** The other way: appends the text to `payload`. ERROR_CORRUPT if it is not the one that this leaf committed to. */
RESULT payload_open(const struct sealed_payload *sealed, const struct leaf *leaf, struct buffer *payload,
                    struct error *err);
