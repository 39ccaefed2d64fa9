/*
 * tests/support/made_dump.h -- the dump of a log that is made up, of any size, as a registry would have it. The header has definitions, so only one
 * source file of a program may include it.
 */
#pragma once

#include "tests/support/made_dump_leaf.h"

static inline void made_entry(struct made_dump *dump, uint64_t number)
{
    struct leaf leaf;
    struct merkle_hash *hash = &dump->hashes[number % DUMP_BLOCK];

    made_leaf(dump, number, &leaf);
    merkle_leaf_hash(buffer_bytes(&dump->leaf), hash);
    merkle_append(&dump->frontier, hash);
    const struct dump_record record = {.type = DUMP_ENTRY,
                                       .entry = {.sequence = number,
                                                 .time_ms = leaf.time_ms,
                                                 .hash = {hash->bytes, sizeof hash->bytes},
                                                 .action = bytes_of_text(leaf.targets[0].action),
                                                 .outcome = bytes_of_text(leaf.outcome),
                                                 .leaf = buffer_bytes(&dump->leaf)}};
    made_record(dump, &record);
}

static inline void made_tile(struct made_dump *dump, unsigned level, uint64_t index, const struct merkle_hash *hashes)
{
    const struct merkle_hash root = tile_root(hashes, TILE_WIDTH);
    const struct dump_record record = {
        .type = DUMP_TILE, .tile = {level, index, {root.bytes, sizeof root.bytes}, {(const uint8_t *)hashes, TILE_BYTES}}};

    made_record(dump, &record);
    dump->tiles[level + 1][dump->tile_counts[level + 1]++] = root;
}

static inline void made_tiles(struct made_dump *dump, uint64_t end)
{
    for (size_t i = 0; i + TILE_WIDTH <= (end - 1) % DUMP_BLOCK + 1; i += TILE_WIDTH)
        made_tile(dump, 0, ((end - 1) / DUMP_BLOCK * DUMP_BLOCK + i) / TILE_WIDTH, dump->hashes + i);
    for (unsigned level = 1; dump->tile_counts[level] == TILE_WIDTH; level++) {
        dump->tile_counts[level] = 0;
        made_tile(dump, level, (end - 1) >> (8 * (level + 1)), dump->tiles[level]);
    }
}

static inline void made_checkpoint(struct made_dump *dump)
{
    struct checkpoint checkpoint = {.size = dump->frontier.size, .root = merkle_frontier_root(&dump->frontier)};
    struct buffer OWNED_BUFFER text = BUFFER(1024), OWNED_BUFFER note = BUFFER(2048);
    uint8_t signature[ED25519_SIGNATURE_SIZE];
    struct error err = {0};

    (void)snprintf(checkpoint.origin, sizeof checkpoint.origin, "%s", MADE_ORIGIN);
    made_must(checkpoint_write(&checkpoint, &text, &err), &err);
    made_must(ed25519_sign(dump->seed, buffer_bytes(&text), signature, &err), &err);
    made_must(note_write_text(&note, buffer_bytes(&text), &err), &err);
    made_must(note_write_signature(&note, &dump->key, (struct bytes){signature, sizeof signature}, &err), &err);
    const struct dump_record record = {
        .type = DUMP_CHECKPOINT,
        .checkpoint = {checkpoint.size, {checkpoint.root.bytes, sizeof checkpoint.root.bytes}, buffer_bytes(&note)}};
    made_record(dump, &record);
}

static inline void made_subject(uint64_t number, uint8_t subject[DUMP_SUBJECT_MAX])
{
    memset(subject, 0, DUMP_SUBJECT_MAX);
    store_u64(subject, number % 1000);
}

static inline void made_block(struct made_dump *dump, uint64_t first)
{
    const uint64_t end = dump->count - first < DUMP_BLOCK ? dump->count : first + DUMP_BLOCK;
    uint8_t subject[DUMP_SUBJECT_MAX];

    for (uint64_t number = first; number < end; number++) made_entry(dump, number);
    made_tiles(dump, end);
    for (uint64_t number = first; number < end; number++) {
        if (dump->count > MADE_ERASURE && number < MADE_ERASURE && number % 1000 == MADE_ERASED) continue;
        made_subject(number, subject);
        const struct dump_record record = {.type = DUMP_PAYLOAD, .payload = {number, {subject, sizeof subject}, true, 200}};
        made_record(dump, &record);
    }
    made_checkpoint(dump);
}

static inline int made_compare_runs(const void *a, const void *b)
{
    const struct made_run *x = a, *y = b;
    const int order = memcmp(x->key, y->key, sizeof x->key);

    return order != 0 ? order : (x->number > y->number) - (x->number < y->number);
}

static inline int made_compare_posts(const void *a, const void *b)
{
    const struct made_post *x = a, *y = b;

    if (x->key != y->key) return x->key < y->key ? -1 : 1;
    return (x->number > y->number) - (x->number < y->number);
}

static inline void made_runs(struct made_dump *dump)
{
    static uint8_t sequences[8 * MADE_GROUP];

    qsort(dump->runs, dump->run_count, sizeof *dump->runs, made_compare_runs);
    for (size_t i = 0, end = 0; i < dump->run_count; i = end) {
        const struct made_run *first = &dump->runs[i];
        for (end = i; end < dump->run_count && memcmp(dump->runs[end].key, first->key, sizeof first->key) == 0 &&
                      dump->runs[end].number / MADE_GROUP == first->number / MADE_GROUP;
             end++)
            store_u64(sequences + 8 * (end - i), (uint64_t)dump->runs[end].number);
        const struct made_run *last = &dump->runs[end - 1];
        const struct dump_record record = {.type = DUMP_RUN,
                                           .run = {{first->key, sizeof first->key},
                                                   last->number,
                                                   (int64_t)last->ordinal,
                                                   (uint32_t)(end - i),
                                                   {sequences, 8 * (end - i)}}};
        made_record(dump, &record);
    }
}

static inline void made_posts(struct made_dump *dump)
{
    uint8_t list[POSTING_BYTES];

    qsort(dump->posts, dump->post_count, sizeof *dump->posts, made_compare_posts);
    for (size_t i = 0, end = 0; i < dump->post_count; i = end) {
        const struct made_post *first = &dump->posts[i];
        struct posting places = {.words = {0}};
        for (end = i; end < dump->post_count && dump->posts[end].key == first->key &&
                      dump->posts[end].number / POSTING_BLOCK == first->number / POSTING_BLOCK;
             end++)
            posting_set(&places, dump->posts[end].number % POSTING_BLOCK);
        const struct dump_record record = {
            .type = DUMP_POST,
            .post = {.key = first->key, .block = first->number / POSTING_BLOCK, .list = {list, posting_write(&places, list)}}};
        made_record(dump, &record);
    }
}

/* One address for each person, in the first block. The person that is erased is none of them. */
static inline void made_blind(struct made_dump *dump)
{
    uint8_t list[2], subject[DUMP_SUBJECT_MAX];

    for (uint64_t number = 0; number < dump->count && number < 16; number++) {
        made_subject(number, subject);
        store_u16(list, (uint16_t)number);
        const struct dump_record record = {
            .type = DUMP_BLIND,
            .post = {.key = (int64_t)number, .subject = {subject, sizeof subject}, .list = {list, sizeof list}}};
        made_record(dump, &record);
    }
}

static inline void made_rights(struct made_dump *dump)
{
    for (size_t place = 0; place < MADE_PLACES; place++)
        for (size_t tag = 0; tag < MADE_TAGS; tag++) {
            char repository[64], name[16], digest[72]; /* a word and a number each */
            if (!dump->tags[place][tag].is_there) continue;
            (void)snprintf(repository, sizeof repository, "acme/models/place-%zu", place);
            (void)snprintf(name, sizeof name, "t%zu", tag);
            made_digest(digest, "content", dump->tags[place][tag].pushed);
            const struct dump_record record = {.type = DUMP_TAG,
                                               .tag = {bytes_of_text(repository), bytes_of_text(name), bytes_of_text(digest)}};
            made_record(dump, &record);
        }
    for (unsigned i = 0; i < 2 && dump->count >= 3; i++) {
        char holder[64]; /* "robot:" and a UUID */
        struct dump_record record = {.type = DUMP_BINDING,
                                     .binding = {.id = {{0x10, 0, 0, 0, 0, 0, 0x40, 0, 0x80, 0, 0, 0, 0, 0, 0, (uint8_t)i}},
                                                 .is_live = i == 1,
                                                 .role = bytes_of_text("publisher"),
                                                 .scope = bytes_of_text("acme")}};
        (void)snprintf(holder, sizeof holder, "robot:00000000-0000-4000-8000-00000000000%u", i);
        record.binding.holder = bytes_of_text(holder);
        made_record(dump, &record);
    }
}

static inline void made_facts(struct made_dump *dump, bool writes)
{
    for (unsigned i = 0; i < MADE_FACTS; i++) {
        char text[32]; /* the shape of facts is of no interest here */
        (void)snprintf(text, sizeof text, "{\"v\":%u}", i);
        sha256_of(bytes_of_text(text), dump->facts[i]);
    }
    for (const uint8_t *last = NULL; writes;) {
        unsigned next = MADE_FACTS;
        for (unsigned i = 0; i < MADE_FACTS; i++)
            if ((last == NULL || memcmp(dump->facts[i], last, SHA256_SIZE) > 0) &&
                (next == MADE_FACTS || memcmp(dump->facts[i], dump->facts[next], SHA256_SIZE) < 0))
                next = i;
        if (next == MADE_FACTS) return;
        char text[32]; /* as above */
        (void)snprintf(text, sizeof text, "{\"v\":%u}", next);
        const struct dump_record record = {.type = DUMP_FACTS, .facts = {{dump->facts[next], SHA256_SIZE}, bytes_of_text(text)}};
        made_record(dump, &record);
        last = dump->facts[next];
    }
}

/* The frontier is known at the end only, so all entries are made twice; so are the numbers under their keys. */
static inline void made_head(struct made_dump *dump, const struct merkle_frontier *frontier)
{
    struct buffer OWNED_BUFFER stored = BUFFER(64 * MERKLE_HASH_SIZE);
    struct error err = {0};
    struct dump_record record = {.type = DUMP_HEAD,
                                 .head = {.size = dump->count,
                                          .last_ms = MADE_START_MS + (int64_t)dump->count,
                                          .indexed = dump->count,
                                          .made_ms = MADE_START_MS + (int64_t)dump->count + 1000}};

    (void)snprintf(record.head.origin, sizeof record.head.origin, "%s", MADE_ORIGIN);
    made_must(merkle_frontier_write(frontier, &stored, &err), &err);
    record.head.frontier = buffer_bytes(&stored);
    made_record(dump, &record);
}

static inline void made_reset(struct made_dump *dump)
{
    memset(dump->heads, 0, dump->head_room * sizeof *dump->heads);
    memset(dump->tags, 0, sizeof dump->tags);
    dump->run_count = dump->post_count = 0;
    dump->frontier = (struct merkle_frontier){.size = 0};
}

static inline void made_init(struct made_dump *dump)
{
    uint8_t public_key[ED25519_PUBLIC_SIZE];
    struct error err = {0};

    dump->out = BUFFER((size_t)4 << 20);
    dump->leaf = BUFFER(LEAF_MAX);
    dump->vkey = BUFFER(512);
    dump->head_room = 1;
    while (dump->head_room < 4 * (dump->repositories + 4096)) dump->head_room *= 2;
    dump->heads = calloc(dump->head_room, sizeof *dump->heads);
    dump->runs = calloc(dump->count * 7 + 1, sizeof *dump->runs);
    dump->posts = calloc(dump->count * 24 + 1, sizeof *dump->posts);
    assert(dump->heads != NULL && dump->runs != NULL && dump->posts != NULL);
    made_must(secret_new(ED25519_SEED_SIZE, &dump->seed, &err), &err);
    memset(dump->seed->bytes, 7, ED25519_SEED_SIZE);
    made_must(ed25519_public(dump->seed, public_key, &err), &err);
    made_must(note_key_make(MADE_ORIGIN, NOTE_ED25519, public_key, &dump->key, &err), &err);
    made_must(note_key_write(&dump->key, &dump->vkey, &err), &err);
    made_must(dump_writer_new(&dump->writer, &err), &err);
}

/** Makes the dump of `count` entries about `repositories` repositories. *vkey_out: the log's key; free it with buffer_done(). */
static inline void made_dump(uint64_t count, uint64_t repositories, made_taker take, void *context, struct buffer *vkey_out)
{
    struct made_dump *dump = calloc(1, sizeof *dump);
    struct error err = {0};
    struct merkle_hash hash;
    struct leaf leaf;

    assert(dump != NULL);
    dump->count = count;
    dump->repositories = repositories;
    dump->take = take;
    dump->context = context;
    made_init(dump);
    made_facts(dump, false);
    for (uint64_t number = 0; number < count; number++) {
        made_leaf(dump, number, &leaf);
        merkle_leaf_hash(buffer_bytes(&dump->leaf), &hash);
        merkle_append(&dump->frontier, &hash);
        dump->run_count = dump->post_count = 0;
    }
    const struct merkle_frontier frontier = dump->frontier;
    made_reset(dump);
    made_must(dump_writer_begin(dump->writer, &dump->out, &err), &err);
    made_head(dump, &frontier);
    made_facts(dump, true);
    for (uint64_t first = 0; first < count; first += DUMP_BLOCK) made_block(dump, first);
    made_runs(dump);
    made_posts(dump);
    made_blind(dump);
    made_rights(dump);
    made_must(dump_writer_end(dump->writer, &dump->out, &err), &err);
    made_flush(dump);
    *vkey_out = dump->vkey;
    buffer_done(&dump->out);
    buffer_done(&dump->leaf);
    secret_free(dump->seed);
    dump_writer_free(dump->writer);
    free(dump->heads);
    free(dump->runs);
    free(dump->posts);
    free(dump);
}
