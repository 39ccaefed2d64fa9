/*
 * audit/format/fsck_table_priv.h -- what names stand for, by keyed hashes of the names. It has a limit.
 */
#pragma once

#include "base/bytes.h"
#include "crypto/hmac.h"

enum slot_flag {
    IS_SEEN = 1,
    IS_GONE = 2,
    IS_UNSURE = 4,
    IS_ADMINISTRATOR = 8,
    IS_TAG = 16,
    IS_BINDING = 32,
    IS_PERSON = 64,
    IS_PROVISIONED = 128,
    IS_GROUP = 256,
    IS_LINK = 512,
    IS_TOLD = 1024 /* of a person: its first event tells the externalId, so all its rows are told */
};

/* What one name stands for; the name itself is only in the key, as a keyed hash. */
struct fsck_slot {
    uint64_t key; /* 0: free */
    uint64_t
        value; /* hash of the manifest of a tag, of the grant of a binding, of the members of a group; how many sealed parts of a person are missing */
    uint64_t sequence; /* of the last event about it, plus 1 */
    uint64_t scopes
        [3]; /* the places that it is in; the first: the last entry of a person whose sealed part is missing; of a person of SCIM the erasure and the
                           externalId */
    uint64_t
        holder; /* hash of the robot of a binding; the first entry of a person whose sealed part is missing; the pseudonym of a person of SCIM */
    uint16_t flags;
};

struct fsck_table {
    uint64_t memory;    /* bytes, at most */
    size_t count, room; /* room: a power of two */
    struct fsck_slot *slots;
};
/** The owner frees `slots`. */
RESULT fsck_table_init(struct fsck_table *table, uint64_t memory, struct error *err) __attribute__((nonnull));
/** A hash of a kind and of three texts; never 0. */
#define FSCK_NAME_PARTS 3
uint64_t fsck_table_hash(const uint8_t secret[TABLE_KEY_SIZE], char kind, const struct bytes parts[FSCK_NAME_PARTS])
    __attribute__((nonnull));
/** NULL: there is none. */
struct fsck_slot *fsck_table_find(const struct fsck_table *table, uint64_t key) __attribute__((nonnull));
/** Finds or makes; ERROR_LIMIT if there is no room for one more. Slots that were found before may have moved. */
RESULT fsck_table_get(struct fsck_table *table, uint64_t key, struct fsck_slot **slot_out, struct error *err)
    __attribute__((nonnull));

/** What rows must be by the events, in the order of events. */
struct fsck_rows {
    uint8_t secret[TABLE_KEY_SIZE];
    struct fsck_table table;
    uint64_t administrator; /* key of the robot that is the first administrator now */
    bool has_chain;
    uint64_t unwraps;
    char chain[80]; /* "sha256:..." */
};
/** The key of a name of one kind. */
uint64_t fsck_rows_hash(const struct fsck_rows *rows, char kind, struct bytes name) __attribute__((nonnull));
