/*
 * audit/event_priv.h -- makes the leaf and the sealed payload of an event from its record.
 */
#pragma once

#include "audit/format/leaf.h"
#include "audit/permit_priv.h"
#include "audit/sequencer.h"
#include "audit/subject_priv.h"
#include "audit/tally_priv.h"

/** The issuer under which requests without a credential are recorded. The subject is the day, so erasing one key erases the
 *  addresses of one day. */
#define ANONYMOUS_ISSUER "sijil:anonymous"
/** The issuer under which this registry's own robots are recorded, because their principals name no issuer. */
#define REGISTRY_ISSUER "sijil:registry"

/** Events that the sequencer adds itself. */
enum own_event { OWN_NONE, OWN_BURST_OPEN, OWN_BURST_CLOSE, OWN_REFUSED, OWN_UNRECORDED, OWN_CLOCK_STEP };

struct event {
    struct record *record; /* NULL: the sequencer's own event */
    enum own_event own;
    uint64_t count;                     /* of OWN_*; for OWN_BURST_OPEN the bound */
    uint64_t opened;                    /* OWN_BURST_CLOSE: sequence number of the opening event */
    struct burst *burst;                /* of OWN_BURST_* */
    const char *organisation;           /* OWN_BURST_*: the organisation whose requests are counted; "" */
    const struct tally *tally;          /* NULL, or the content of the payload ... */
    const struct audit_subject *sealer; /* ... and the subject whose key seals it */
    int64_t stepped_ms;                 /* OWN_CLOCK_STEP: the sum of all steps; `count` is their number */

    enum action action; /* of the first target */
    enum outcome outcome;
    bool has_failed; /* the change failed; `error` has the reason */
    struct error error;
    struct permit *permit;            /* moves to the record once the event is durable */
    bool is_beaten;                   /* others have taken the last use of an exception that the decision needs */
    uint64_t uses[DECISION_USES_MAX]; /* the number of each use; 0: not counted for this event */

    struct leaf_source source;
    uint64_t sequence;
    bool has_payload;
    uint8_t salt[LEAF_SALT_SIZE], commitment[32];
    size_t box_at, box_length;   /* in the group's buffer */
    size_t leaf_at, leaf_length; /* likewise */
    struct merkle_hash hash;
    size_t key_count;
    uint32_t keys[LEAF_KEYS_MAX]; /* indices in the group's table, in the order of the leaf's keys */
};

/** "allowed", "denied", "failed", "completed". */
const char *outcome_name(enum outcome outcome);

/** Takes targets and outcome from the record, and makes the permit if the decision allows. ERROR_NO_MEMORY. */
RESULT event_of_record(struct record *record, struct event *event_out, struct error *err);
/** Releases the objects that event_of_record() made and no caller has taken. */
void event_done(struct event *event);

/** Copies actor and request to the event's permit, for later events under it. */
void event_name_permit(struct event *event);

/** Copies text from outside as printable ASCII, without characters that JSON would escape. Returns its length. */
size_t event_plain_text(char *destination, size_t room, const char *text);

/** Fills in all but sequence, time and ordinals. Text from outside becomes printable ASCII. */
void event_fill_leaf(const struct event *event, struct leaf *leaf_out);

/** Draws a salt, seals the payload under `subject` and appends the box. Fills in salt, commitment and the position of the box. */
RESULT event_seal_payload(struct event *event, const struct audit_subject *subject, const char *origin, struct buffer *boxes,
                          struct error *err);
/** A sealed payload as it is stored. */
struct sealed_payload {
    const uint8_t *subject_key; /* SUBJECT_KEY_SIZE bytes */
    const uint8_t *salt;        /* LEAF_SALT_SIZE bytes */
    struct bytes box;
    const char *origin;
};
/** Opens a sealed payload and appends its text to `payload`. ERROR_CORRUPT if the leaf committed to another text. */
RESULT payload_open(const struct sealed_payload *sealed, const struct leaf *leaf, struct buffer *payload, struct error *err);
