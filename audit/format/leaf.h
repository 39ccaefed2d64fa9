/*
 * audit/format/leaf.h -- one event of the log, byte for byte (docs/formats/audit-log.md section 13).
 *
 * A leaf is one JSON object in its one canonical spelling (RFC 8785, no fractions), of at most LEAF_MAX bytes. Its bytes
 * are stored and never changed, because the hash is over them. A leaf names no person: the actor is a pseudonym, and
 * personal data are in the payload, of which the leaf has only a commitment. The leaf also commits to the facts on which
 * each pair of action and resource was decided (policy/replay.h reads them), so that the decision can be made again.
 */
#pragma once

#include "audit/format/merkle.h"

#define LEAF_VERSION      2                         /* the version that is written; version 1, which has no facts, is read too */
#define LEAF_MAX          4096                      /* bytes */
#define LEAF_INTEGER_MAX  INT64_C(9007199254740991) /* 2^53 - 1: the largest integer that every JSON reader keeps exact */
#define LEAF_TARGETS_MAX  4                         /* ACTION_PAIRS_MAX */
#define LEAF_RULES_MAX    4                         /* more rules are in the payload */
#define LEAF_NAME_MAX     255                       /* RESOURCE_NAME_MAX */
#define LEAF_RESOURCE_MAX 1956                      /* name, '#' and a detail of CHANGE_DETAIL_MAX */
#define LEAF_DETAIL_MAX   140                       /* RESOURCE_DETAIL_MAX: each detail of a leaf with several targets */
#define LEAF_KEYS_MAX     14                        /* org:, prj: and res: of each target, act:, out: */
#define LEAF_KEY_MAX      (4 + LEAF_NAME_MAX)       /* "res:" and a name */
#define LEAF_KEY_ID_SIZE  16
#define LEAF_FACTS_DIGEST 32 /* bytes */

/** An action and its resource. */
struct leaf_target {
    char action[32];                      /* "blob.read"; the longest in audit/actions.def has 21 letters */
    char resource[LEAF_RESOURCE_MAX + 1]; /* "acme/models/digits#sha256:...", "" for the system */
    char region[64];                      /* "" if the action touches no bytes */
};

/** The gateway's own numbering: a gap in `number` is an event that could not be recorded. */
struct leaf_source {
    char instance[64];
    uint64_t boot, number;
};

/** The reasons for the outcome. A text may be ""; a number that is not set is absent. */
struct leaf_reason {
    char decision[72], policy[72]; /* "sha256:..." */
    char note[80];
    size_t rule_count;
    char rules[LEAF_RULES_MAX][65];
    bool has_count, has_bound, has_opened;
    uint64_t count;      /* the number of requests that this event stands for */
    uint64_t bound;      /* opening of a burst: the most requests that it will stand for */
    uint64_t opened;     /* closing of a burst: the sequence number of its opening */
    bool has_decided;    /* set exactly when there are facts */
    uint64_t decided_ms; /* by the gateway's clock */
};

/** A name under which events are counted, and this event's number under it (from 1). */
struct leaf_key {
    char name[LEAF_KEY_MAX + 1];
    uint64_t ordinal;
};

struct leaf {
    unsigned version; /* 1 or LEAF_VERSION */
    uint64_t sequence;
    int64_t time_ms; /* never less than that of the previous entry */
    struct leaf_source source;
    uint32_t class_uid; /* OCSF type_uid of the first action */
    char actor[65];     /* 64 hex digits, "anonymous" or "system" */
    char outcome[12];   /* "allowed", "denied", "failed", "completed" */
    struct leaf_reason reason;
    char request[37]; /* "" for the server's own work */
    bool has_payload;
    uint8_t payload[32]; /* commitment */
    size_t target_count; /* at least 1 */
    struct leaf_target targets[LEAF_TARGETS_MAX];
    size_t facts_count; /* equal to target_count; 0 in version 1, without a decision, and after leaf_shorten() */
    uint8_t facts[LEAF_TARGETS_MAX][LEAF_FACTS_DIGEST]; /* in the order of the targets: SHA-256 of the stored facts */
    size_t key_count;
    struct leaf_key keys[LEAF_KEYS_MAX];
};

/** Appends the leaf. ERROR_LIMIT past LEAF_MAX, ERROR_INVALID for control characters, bad UTF-8 or huge numbers. */
RESULT leaf_write(const struct leaf *leaf, struct buffer *text, struct error *err);
/**
 * Shortens a leaf that is too long. Drops the details of further targets, rules after the first, and the note. From a
 * leaf with LEAF_TARGETS_MAX targets it also drops the facts: the decision then can't be replayed. No key changes,
 * and the decision's id still covers what is dropped. Every event fits then, if the first of several targets has a
 * detail of at most LEAF_DETAIL_MAX.
 */
void leaf_shorten(struct leaf *leaf);
/** Reads a leaf strictly: known members only, canonical spelling, and exactly the keys that follow from the other members. */
RESULT leaf_read(struct bytes text, struct leaf *leaf_out, struct error *err);
/** Whether a text that leaf_read() refuses says that it is of a later version. ERROR_NO_MEMORY only. */
RESULT leaf_is_later(struct bytes text, bool *is_later_out, struct error *err);

/** Text that a leaf may hold: UTF-8 (RFC 3629: no overlong forms, no surrogates) without control characters. */
bool leaf_text_is_valid(struct bytes text);

/** Sets key_count and the names of the keys from the other members, in byte order, with ordinals 0. */
void leaf_fill_keys(struct leaf *leaf);
/** Whether an event can have a key of this name: org:, prj: or res: and a name without '#', act: and a pseudonym,
 *  "anonymous" or "system", out:denied or out:failed. */
bool leaf_key_is_possible(const char *key);

/**
 * The narrowest key that has all events of a condition of a search: `condition` is resource, prefix, actor or outcome, `value` a name of whole segments of a
 * repository's grammar ("acme/" is acme), a pseudonym, or denied or failed. False: there is no such key. `is_exact_out`: no other events stand under it.
 */
bool leaf_key_of_condition(const char *condition, const char *value, char key_out[LEAF_KEY_MAX + 1], bool *is_exact_out);

/** The first 16 bytes of the SHA-256 of a key's name, which the database indexes. */
void leaf_key_id(const char *name, uint8_t id_out[LEAF_KEY_ID_SIZE]);

/** Appends ["instance",boot,number] as in the leaf. */
RESULT leaf_source_write(const struct leaf_source *source, struct buffer *text, struct error *err);
/** The commitment to a payload: SHA-256("sijil-pay-v1" || 0x00 || salt || payload). */
#define LEAF_SALT_SIZE 32
RESULT leaf_payload_commitment(const uint8_t salt[LEAF_SALT_SIZE], struct bytes payload, uint8_t commitment_out[32],
                               struct error *err);
