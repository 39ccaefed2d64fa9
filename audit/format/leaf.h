/*
 * audit/format/leaf.h -- one event of the log, byte for byte (docs/formats/audit-log.md section 13).
 *
 * A leaf is one JSON object in its one canonical spelling (RFC 8785, no fractions), of at most LEAF_MAX bytes. It is
 * stored as it was written and never written again: the hash is over these bytes. It names no person: who acted is
 * a pseudonym, and what would tell more is in the payload, which the leaf only commits to. It also commits to the facts that
 * each pair was decided on (policy/replay.h reads them), so that the decision can be made again.
 */
#pragma once

#include "audit/format/merkle.h"

#define LEAF_VERSION       2                      /* that is written; version 1, which has no facts, is read, too */
#define LEAF_MAX           4096                   /* bytes */
#define LEAF_INTEGER_MAX   INT64_C(9007199254740991) /* 2^53 - 1: what every JSON reader keeps */
#define LEAF_TARGETS_MAX   4                      /* ACTION_PAIRS_MAX */
#define LEAF_RULES_MAX     4                      /* further ones are in the payload */
#define LEAF_NAME_MAX      255                    /* RESOURCE_NAME_MAX */
#define LEAF_RESOURCE_MAX  1956                   /* name, '#' and a detail of CHANGE_DETAIL_MAX */
#define LEAF_DETAIL_MAX    140                    /* RESOURCE_DETAIL_MAX: all that a leaf of several targets has room for */
#define LEAF_KEYS_MAX      14                     /* org:, prj: and res: of each target, act:, out: */
#define LEAF_KEY_MAX       (4 + LEAF_NAME_MAX)    /* "res:" and a name */
#define LEAF_KEY_ID_SIZE   16
#define LEAF_FACTS_DIGEST  32                     /* bytes */

/** What was done, and to what. */
struct leaf_target {
    char action[32];                      /* "blob.read"; the longest in audit/actions.def has 19 letters */
    char resource[LEAF_RESOURCE_MAX + 1]; /* "acme/models/digits#sha256:...", "" for the system */
    char region[64];                      /* "" if no bytes are touched */
};

/** The gateway's own numbering: a hole in `number` is an event that could not be recorded. */
struct leaf_source {
    char instance[64];
    uint64_t boot, number;
};

/** Why it came out so. Texts may be "", numbers that are not set are absent. */
struct leaf_reason {
    char decision[72], policy[72]; /* "sha256:..." */
    char note[80];
    size_t rule_count;
    char rules[LEAF_RULES_MAX][65];
    bool has_count, has_bound, has_opened;
    uint64_t count;  /* events that this one stands for */
    uint64_t bound;  /* opening a burst: it will stand for at most so many */
    uint64_t opened; /* closing a burst: the sequence number of its opening */
    bool has_decided;    /* exactly when there are facts */
    uint64_t decided_ms; /* by the gateway's clock */
};

/** One name under which events are counted, and which number this event has under it (from 1). */
struct leaf_key {
    char name[LEAF_KEY_MAX + 1];
    uint64_t ordinal;
};

struct leaf {
    unsigned version; /* 1 or LEAF_VERSION */
    uint64_t sequence;
    int64_t time_ms; /* never less than that of the entry before */
    struct leaf_source source;
    uint32_t class_uid; /* OCSF type_uid of the first action */
    char actor[65];     /* 64 hex digits, "anonymous" or "system" */
    char outcome[12];   /* "allowed", "denied", "failed", "completed" */
    struct leaf_reason reason;
    char request[37];   /* "" for work of the server's own */
    bool has_payload;
    uint8_t payload[32]; /* commitment */
    size_t target_count; /* at least 1 */
    struct leaf_target targets[LEAF_TARGETS_MAX];
    size_t facts_count;  /* target_count; 0 in version 1, where nobody decided, and after leaf_shorten() */
    uint8_t facts[LEAF_TARGETS_MAX][LEAF_FACTS_DIGEST]; /* of each target in its order: SHA-256 of the facts as they are stored */
    size_t key_count;
    struct leaf_key keys[LEAF_KEYS_MAX];
};

/** Appends the leaf. ERROR_LIMIT past LEAF_MAX, ERROR_INVALID for control characters, bad UTF-8 or huge numbers. */
RESULT leaf_write(const struct leaf *leaf, struct buffer *text, struct error *err);
/**
 * For an event that would be too long: drops the details of further targets, rules after the first, and the note; of
 * LEAF_TARGETS_MAX targets also the facts, so that nobody can decide it again. No key changes; what is dropped is still under the
 * decision's id. Then every event fits, if the first of several targets has a detail of at most LEAF_DETAIL_MAX.
 */
void leaf_shorten(struct leaf *leaf);
/** Reads a leaf strictly: known members only, canonical spelling, keys that are the function of the rest. */
RESULT leaf_read(struct bytes text, struct leaf *leaf_out, struct error *err);

/** UTF-8 (RFC 3629: no overlong forms, no surrogates) without control characters: what may stand in a leaf. */
bool leaf_text_is_valid(struct bytes text);

/** Fills in key_count and the names of keys from the other members, in byte order, ordinals 0. */
void leaf_fill_keys(struct leaf *leaf);
/** Whether any event can stand under a key of this name: org:, prj: or res: and a name without '#', act: and a pseudonym,
 *  "anonymous" or "system", out:denied or out:failed. */
bool leaf_key_is_possible(const char *key);

/** The first 16 bytes of the SHA-256 of a key's name: what the database indexes. */
void leaf_key_id(const char *name, uint8_t id_out[LEAF_KEY_ID_SIZE]);

/** Appends ["instance",boot,number] as it stands in the leaf. */
RESULT leaf_source_write(const struct leaf_source *source, struct buffer *text, struct error *err);
/** What the leaf says of its payload: SHA-256("sijil-pay-v1" || 0x00 || salt || payload). */
#define LEAF_SALT_SIZE 32
RESULT leaf_payload_commitment(const uint8_t salt[LEAF_SALT_SIZE], struct bytes payload, uint8_t commitment_out[32],
                               struct error *err);
