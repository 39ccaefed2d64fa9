/*
 * tests/support/made_dump_leaf.h -- the events of a log that is made up: the part of made_dump.h that says what happens.
 */
#pragma once

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "audit/format/dump.h"
#include "audit/format/note.h"
#include "audit/format/posting.h"
#include "audit/format/search_terms.h"
#include "base/text.h"
#include "crypto/ed25519.h"

#define MADE_ORIGIN   "test.example/audit"
#define MADE_START_MS INT64_C(1795171186000)
#define MADE_PUSHING  64 /* one entry of so many is a push, into one of MADE_PLACES repositories, under one of MADE_TAGS tags */
#define MADE_PLACES   100
#define MADE_TAGS     8
#define MADE_FACTS    16
#define MADE_ERASURE  7000 /* the entry with which actor MADE_ERASED is erased */
#define MADE_ERASED   17u
#define MADE_GROUP    1000 /* entries that were appended together */

struct made_run {
    uint8_t key[LEAF_KEY_ID_SIZE];
    int64_t number;
    uint64_t ordinal;
};
struct made_post {
    int64_t key;
    uint32_t number;
};
struct made_tag {
    bool is_there;
    uint64_t pushed; /* the number of the push */
};
struct made_head {
    uint8_t key[LEAF_KEY_ID_SIZE];
    uint64_t count;
};

/** Takes the dump piece by piece. */
typedef void (*made_taker)(void *context, struct bytes piece);

struct made_dump {
    uint64_t count, repositories;
    made_taker take;
    void *context;
    struct dump_writer *writer;
    struct buffer out, leaf, vkey;
    struct secret *seed;
    struct note_key key;
    struct merkle_frontier frontier, rows_above;
    struct merkle_hash hashes[DUMP_BLOCK], tiles[TILE_LEVEL_MAX][TILE_WIDTH];
    size_t tile_counts[TILE_LEVEL_MAX];
    struct made_run *runs;
    struct made_post *posts;
    size_t run_count, post_count, head_room;
    struct made_head *heads; /* open addressing; head_room is a power of two */
    struct made_tag tags[MADE_PLACES][MADE_TAGS];
    uint8_t facts[MADE_FACTS][SHA256_SIZE];
};

static inline void made_must(struct result result, const struct error *err)
{
    if (result.ok) return;
    (void)fprintf(stderr, "the dump can't be made: %s\n", err->message);
    abort();
}

static inline void made_flush(struct made_dump *dump)
{
    dump->take(dump->context, buffer_bytes(&dump->out));
    buffer_clear(&dump->out);
}

static inline void made_record(struct made_dump *dump, const struct dump_record *record)
{
    struct error err = {0};

    made_must(dump_writer_add(dump->writer, record, &dump->out, &err), &err);
    if (dump->out.length > 1 << 20) made_flush(dump);
}

static inline void made_digest(char out[72], const char *kind, uint64_t number)
{
    char text[64]; /* a word and a number */
    uint8_t digest[SHA256_SIZE];

    (void)snprintf(text, sizeof text, "%s %llu", kind, (unsigned long long)number);
    sha256_of(bytes_of_text(text), digest);
    memcpy(out, "sha256:", 7);
    text_hex(digest, sizeof digest, out + 7);
}

static inline uint64_t made_next_ordinal(struct made_dump *dump, const uint8_t key[LEAF_KEY_ID_SIZE])
{
    size_t at = (size_t)load_u64(key) & (dump->head_room - 1);

    while (dump->heads[at].count > 0 && memcmp(dump->heads[at].key, key, LEAF_KEY_ID_SIZE) != 0)
        at = (at + 1) & (dump->head_room - 1);
    memcpy(dump->heads[at].key, key, LEAF_KEY_ID_SIZE);
    return ++dump->heads[at].count;
}

/* What happens at each number: a first few events make rights; most others read. */
static inline void made_happen(struct made_dump *dump, uint64_t number, struct leaf *leaf)
{
    struct leaf_target *target = &leaf->targets[0];
    const uint64_t place = number / MADE_PUSHING % MADE_PLACES, tag = number / MADE_PUSHING / MADE_PLACES % MADE_TAGS;
    char digest[72];

    made_digest(digest, "content", number);
    (void)snprintf(target->action, sizeof target->action, "%s", "blob.read");
    (void)snprintf(target->resource, sizeof target->resource, "acme/models/repository-%llu#%s",
                   (unsigned long long)(number % dump->repositories), digest);
    if (number < 3) {
        (void)snprintf(target->action, sizeof target->action, "%s", number < 2 ? "binding.create" : "binding.revoke");
        (void)snprintf(
            target->resource, sizeof target->resource,
            number < 2 ? "acme#publisher robot:00000000-0000-4000-8000-00000000000%llu 10000000-0000-4000-8000-00000000000%llu"
                       : "acme#10000000-0000-4000-8000-000000000000",
            (unsigned long long)number, (unsigned long long)number);
    } else if (number % MADE_PUSHING == 5) {
        (void)snprintf(target->action, sizeof target->action, "%s", "manifest.push");
        (void)snprintf(target->resource, sizeof target->resource, "acme/models/place-%llu#%s t%llu", (unsigned long long)place,
                       digest, (unsigned long long)tag);
        dump->tags[place][tag] = (struct made_tag){true, number};
    } else if (number % MADE_PUSHING == 6 && tag % 2 == 1) {
        (void)snprintf(target->action, sizeof target->action, "%s", "tag.delete");
        (void)snprintf(target->resource, sizeof target->resource, "acme/models/place-%llu#t%llu", (unsigned long long)place,
                       (unsigned long long)tag);
        dump->tags[place][tag].is_there = false;
    } else if (number == MADE_ERASURE) {
        (void)snprintf(target->action, sizeof target->action, "%s", "subject.erase");
        (void)snprintf(target->resource, sizeof target->resource, "#%064x", MADE_ERASED);
        (void)snprintf(leaf->actor, sizeof leaf->actor, "system");
    } else if (number % 101 == 100) {
        char head[72];
        made_digest(head, "chain", number);
        (void)snprintf(target->action, sizeof target->action, "%s", "keyd.unwraps");
        (void)snprintf(target->resource, sizeof target->resource, "#%llu,%s", (unsigned long long)number, head);
    }
}

static inline void made_leaf(struct made_dump *dump, uint64_t number, struct leaf *leaf)
{
    struct error err = {0};
    uint8_t id[LEAF_KEY_ID_SIZE];
    struct search_terms terms;

    *leaf =
        (struct leaf){.version = LEAF_VERSION, .sequence = number, .time_ms = MADE_START_MS + (int64_t)number, .target_count = 1};
    leaf->source = (struct leaf_source){.instance = "gw1", .boot = 1, .number = number + 1};
    leaf->class_uid = 600302;
    (void)snprintf(leaf->actor, sizeof leaf->actor, "%064llx", (unsigned long long)(number % 1000));
    made_happen(dump, number, leaf);
    (void)snprintf(leaf->targets[0].region, sizeof leaf->targets[0].region, "local/main");
    const char *outcome = number % 10 == 9 && number % MADE_PUSHING > 6 ? "denied" : "allowed";
    (void)snprintf(leaf->outcome, sizeof leaf->outcome, "%s", number == MADE_ERASURE ? "completed" : outcome);
    (void)snprintf(leaf->request, sizeof leaf->request, "%032llx", (unsigned long long)number);
    made_digest(leaf->reason.decision, "decision", number);
    made_digest(leaf->reason.policy, "policy", 0);
    leaf->reason.has_decided = true;
    leaf->reason.decided_ms = (uint64_t)leaf->time_ms;
    leaf->facts_count = 1;
    memcpy(leaf->facts[0], dump->facts[number % MADE_FACTS], sizeof leaf->facts[0]);
    leaf->has_payload = true;
    memset(leaf->payload, (int)(number % 251), sizeof leaf->payload);
    leaf_fill_keys(leaf);
    for (size_t i = 0; i < leaf->key_count; i++) {
        leaf_key_id(leaf->keys[i].name, id);
        leaf->keys[i].ordinal = made_next_ordinal(dump, id);
        struct made_run *run = &dump->runs[dump->run_count++];
        *run = (struct made_run){.number = (int64_t)number, .ordinal = leaf->keys[i].ordinal};
        memcpy(run->key, id, sizeof id);
    }
    search_terms_of(leaf, &terms);
    for (size_t i = 0; i < terms.count; i++)
        dump->posts[dump->post_count++] = (struct made_post){terms.keys[i], (uint32_t)number};
    buffer_clear(&dump->leaf);
    made_must(leaf_write(leaf, &dump->leaf, &err), &err);
}
