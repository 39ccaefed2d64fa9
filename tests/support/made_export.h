/*
 * tests/support/made_export.h -- a log in memory, from one seed, and the exports of its keys, written without the server. The header has definitions, so
 * only one source file of a program may include it.
 */
#pragma once

#include "tests/support/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "audit/format/export_check.h"
#include "crypto/ed25519.h"

#define MADE_LOG_MAX  256
#define MADE_ORIGIN   "test.example/audit"
#define MADE_START_MS INT64_C(1795171186000)
#define MADE_HEADS    32 /* keys that the entries of a log have */

struct made_entry {
    struct leaf leaf;
    struct buffer text, payload;
    uint8_t salt[LEAF_SALT_SIZE];
    struct merkle_hash hash;
};

struct made_log {
    uint64_t random; /* of a generator that is the same everywhere */
    size_t count;
    struct made_entry *entries;
    size_t head_count;
    struct leaf_key heads[MADE_HEADS];
    struct secret *seed;
    struct note_key key;
    struct buffer vkey, note;
};

/* xorshift64*: Marsaglia, Vigna. */
static inline uint64_t made_random(struct made_log *log, uint64_t below)
{
    log->random ^= log->random >> 12;
    log->random ^= log->random << 25;
    log->random ^= log->random >> 27;
    return (log->random * UINT64_C(0x2545F4914F6CDD1D) >> 33) % below;
}

static inline void made_log_begin(struct made_log *log, uint64_t seed)
{
    uint8_t public_key[ED25519_PUBLIC_SIZE], bytes[ED25519_SEED_SIZE];
    struct error err = {0};

    *log = (struct made_log){.random = seed, .vkey = BUFFER(512), .note = BUFFER(4096)};
    for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = (uint8_t)i;
    log->entries = calloc(MADE_LOG_MAX, sizeof *log->entries);
    assert_non_null(log->entries);
    must(secret_new(sizeof bytes, &log->seed, &err), &err);
    memcpy(log->seed->bytes, bytes, sizeof bytes);
    must(ed25519_public(log->seed, public_key, &err), &err);
    must(note_key_make(MADE_ORIGIN, NOTE_ED25519, public_key, &log->key, &err), &err);
    must(note_key_write(&log->key, &log->vkey, &err), &err);
}

static inline void made_log_done(struct made_log *log)
{
    for (size_t i = 0; i < log->count; i++) {
        buffer_done(&log->entries[i].text);
        buffer_done(&log->entries[i].payload);
    }
    free(log->entries);
    secret_free(log->seed);
    buffer_done(&log->vkey);
    buffer_done(&log->note);
}
#define OWNED_MADE_LOG __attribute__((cleanup(made_log_done))) struct made_log

static inline uint64_t made_next_ordinal(struct made_log *log, const char *key)
{
    for (size_t i = 0; i < log->head_count; i++)
        if (strcmp(log->heads[i].name, key) == 0) return ++log->heads[i].ordinal;
    assert_true(log->head_count < MADE_HEADS);
    struct leaf_key *head = &log->heads[log->head_count++];
    (void)snprintf(head->name, sizeof head->name, "%s", key);
    head->ordinal = 1;
    return 1;
}

/* Numbers the entry under its keys, and writes it. */
static inline void made_write(struct made_log *log, struct made_entry *entry)
{
    struct error err = {0};

    leaf_fill_keys(&entry->leaf);
    for (size_t i = 0; i < entry->leaf.key_count; i++)
        entry->leaf.keys[i].ordinal = made_next_ordinal(log, entry->leaf.keys[i].name);
    entry->text = BUFFER(LEAF_MAX);
    must(leaf_write(&entry->leaf, &entry->text, &err), &err);
    merkle_leaf_hash(buffer_bytes(&entry->text), &entry->hash);
}

static inline struct made_entry *made_add(struct made_log *log, const char *action, const char *resource, const char *outcome)
{
    assert_true(log->count < MADE_LOG_MAX);
    struct made_entry *entry = &log->entries[log->count];
    struct leaf *leaf = &entry->leaf;
    const int64_t before_ms = log->count == 0 ? MADE_START_MS : log->entries[log->count - 1].leaf.time_ms;

    *entry = (struct made_entry){.payload = BUFFER(4096)};
    *leaf =
        (struct leaf){.version = LEAF_VERSION, .sequence = log->count, .time_ms = before_ms + (int64_t)made_random(log, 3) * 500};
    leaf->source = (struct leaf_source){.instance = "gw1", .boot = 1, .number = log->count + 1};
    leaf->class_uid = strcmp(action, "token.mint") == 0 ? 300201 : strcmp(action, "server.start") == 0 ? 600201 : 600302;
    leaf->target_count = 1;
    (void)snprintf(leaf->targets[0].action, sizeof leaf->targets[0].action, "%s", action);
    (void)snprintf(leaf->targets[0].resource, sizeof leaf->targets[0].resource, "%s", resource);
    (void)snprintf(leaf->outcome, sizeof leaf->outcome, "%s", outcome);
    for (size_t i = 0; i < 64; i++) leaf->actor[i] = 'a';
    leaf->actor[63] = (char)('0' + made_random(log, 3));
    log->count++;
    return entry;
}

/* A payload, to which the leaf commits. */
static inline void made_seal(struct made_log *log, struct made_entry *entry, const char *subject)
{
    struct error err = {0};

    for (size_t i = 0; i < sizeof entry->salt; i++) entry->salt[i] = (uint8_t)made_random(log, 256);
    must(buffer_format(&entry->payload, &err,
                       "{\"address\":\"192.0.2.%u\",\"agent\":\"curl\",\"issuer\":\"\",\"subject\":\"%s\"}",
                       (unsigned)made_random(log, 256), subject),
         &err);
    entry->leaf.has_payload = true;
    must(leaf_payload_commitment(entry->salt, buffer_bytes(&entry->payload), entry->leaf.payload, &err), &err);
}

/* Events of two organisations, with denials, server's own ones, and text that each format has to escape. */
static inline void made_add_some(struct made_log *log, size_t count)
{
    static const char *const names[] = {
        "acme/models/digits#sha256:aa v1", "acme/models/fraud", "acme/data/cats", "acme/models", "zeta/x/y", ""};
    static const char *const actions[] = {"blob.read", "manifest.push", "token.mint", "server.start"};
    static const char *const subjects[] = {"alice@example.com", "=1+1", "M\xc3\xbcller, \\\"Bob\\\"", "robot:ci\\n"};

    for (size_t i = 0; i < count; i++) {
        const uint64_t kind = made_random(log, 6);
        const char *outcome = kind == 0 ? "denied" : kind == 1 ? "failed" : "allowed";
        struct made_entry *entry = made_add(log, actions[made_random(log, 4)], names[made_random(log, 6)], outcome);
        struct leaf_reason *reason = &entry->leaf.reason;
        if (kind == 0) reason->rule_count = 2;
        for (size_t rule = 0; rule < reason->rule_count; rule++)
            (void)snprintf(reason->rules[rule], sizeof reason->rules[rule], "H-READ-AE-%zu", rule);
        if (kind != 5) made_seal(log, entry, subjects[made_random(log, 4)]);
        made_write(log, entry);
    }
}

/* The closing entry. */
static inline uint64_t made_close(struct made_log *log, const struct export_terms *terms)
{
    char resource[LEAF_RESOURCE_MAX + 1];
    struct buffer OWNED_BUFFER text = BUFFER(EXPORT_TERMS_MAX);
    struct error err = {0};

    must(export_terms_write(terms, &text, &err), &err);
    (void)snprintf(resource, sizeof resource, "#%s", buffer_text(&text));
    struct made_entry *entry = made_add(log, EXPORT_ACTION, resource, "allowed");
    made_write(log, entry);
    return entry->leaf.sequence;
}

/* ---- the tree ---- */

static inline struct merkle_hash made_node(const struct made_log *log, size_t low, size_t high)
{
    struct merkle_hash node;
    size_t half = 1;

    if (high - low == 1) return log->entries[low].hash;
    while (half * 2 < high - low) half *= 2;
    const struct merkle_hash left = made_node(log, low, low + half), right = made_node(log, low + half, high);
    merkle_node_hash(&left, &right, &node);
    return node;
}

struct made_source {
    struct merkle_source source;
    const struct made_log *log;
};

static inline struct result made_find_node(struct merkle_source *source, unsigned level, uint64_t index,
                                           struct merkle_hash *hash_out, struct error *err)
{
    const struct made_source *made = (const struct made_source *)(void *)source;

    (void)err;
    *hash_out = made_node(made->log, (size_t)(index << level), (size_t)((index + 1) << level));
    return SUCCESS;
}

/* Signs all that there is. */
static inline void made_sign(struct made_log *log)
{
    struct checkpoint checkpoint = {.origin = MADE_ORIGIN, .size = log->count, .root = made_node(log, 0, log->count)};
    struct buffer OWNED_BUFFER text = BUFFER(512);
    uint8_t signature[ED25519_SIGNATURE_SIZE];
    struct error err = {0};

    buffer_clear(&log->note);
    must(checkpoint_write(&checkpoint, &text, &err), &err);
    must(ed25519_sign(log->seed, buffer_bytes(&text), signature, &err), &err);
    must(note_write_text(&log->note, buffer_bytes(&text), &err), &err);
    must(note_write_signature(&log->note, &log->key, (struct bytes){signature, sizeof signature}, &err), &err);
}

/* ---- the export, by the definition: no index, no pages ---- */

#define MADE_LINES_MAX (MADE_LOG_MAX + 4)
struct made_export {
    size_t count, events;
    struct buffer lines[MADE_LINES_MAX]; /* each with its line feed; the first is the head */
};

static inline void made_export_done(struct made_export *export)
{
    for (size_t i = 0; i < export->count; i++) buffer_done(&export->lines[i]);
}
#define OWNED_MADE_EXPORT __attribute__((cleanup(made_export_done))) struct made_export

static inline void made_line(const struct made_log *log, const struct export_head *head, size_t number, enum export_place place,
                             struct made_export *export)
{
    struct made_source source = {{made_find_node}, log};
    const struct made_entry *entry = &log->entries[number];
    struct export_line line = {.place = place, .leaf = buffer_bytes(&entry->text)};
    struct error err = {0};

    if (head->terms.is_opened && place == EXPORT_EVENT) line.payload = buffer_bytes(&entry->payload);
    memcpy(line.salt, entry->salt, sizeof line.salt);
    must(merkle_prove_inclusion(&source.source, number, log->count, &line.inclusion, &err), &err);
    struct buffer *text = &export->lines[export->count++];
    *text = BUFFER(EXPORT_LINE_MAX);
    must(export_line_write(head->format, &line, &entry->leaf, text, &err), &err);
}

static inline void made_export_write(const struct made_log *log, const struct export_terms *terms, enum export_format format,
                                     uint64_t closing, struct made_export *export)
{
    struct export_head head = {
        .format = format, .origin = MADE_ORIGIN, .terms = *terms, .closing = closing, .note = buffer_bytes(&log->note)};
    size_t left = SIZE_MAX;
    uint64_t ordinal = 0;
    bool has_right = false;
    struct error err = {0};

    *export = (struct made_export){.count = 1, .lines = {BUFFER(EXPORT_LINE_MAX)}};
    must(export_head_write(&head, &export->lines[0], &err), &err);
    for (size_t i = 0; i < closing; i++) {
        const struct leaf *leaf = &log->entries[i].leaf;
        const uint64_t at = terms->unit == EXPORT_BY_TIME ? (uint64_t)leaf->time_ms : i;
        if (export_ordinal(leaf, terms->key, &ordinal) && at < terms->from) left = i;
    }
    if (left != SIZE_MAX) made_line(log, &head, left, EXPORT_LEFT, export);
    for (size_t i = 0; i < closing && !has_right; i++) {
        const struct leaf *leaf = &log->entries[i].leaf;
        const uint64_t at = terms->unit == EXPORT_BY_TIME ? (uint64_t)leaf->time_ms : i;
        if (!export_ordinal(leaf, terms->key, &ordinal) || at < terms->from) continue;
        has_right = at >= terms->until;
        export->events += has_right ? 0 : 1;
        made_line(log, &head, i, has_right ? EXPORT_RIGHT : EXPORT_EVENT, export);
    }
    made_line(log, &head, (size_t)closing, EXPORT_CLOSING, export);
}
