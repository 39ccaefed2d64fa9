#include <string.h>

#include "audit/format/fsck_priv.h"
#include "base/memory.h"

#define FACTS_SHARE 8 /* of the memory */

/* ---- facts ---- */

static uint64_t facts_hash(const struct fsck *fsck, const uint8_t digest[LEAF_FACTS_DIGEST])
{
    const uint64_t hash = table_hash(fsck->secret, (struct bytes){digest, LEAF_FACTS_DIGEST});

    return hash == 0 ? 1 : hash;
}

static void put_facts(struct fsck_facts *facts, uint64_t hash)
{
    size_t at = (size_t)hash & (facts->room - 1);

    while (facts->hashes[at] != 0 && facts->hashes[at] != hash) at = (at + 1) & (facts->room - 1);
    facts->count += facts->hashes[at] == 0;
    facts->hashes[at] = hash;
}

static struct result grow_facts(struct fsck *fsck, struct error *err)
{
    struct fsck_facts old = fsck->facts, new = {.room = old.room == 0 ? 1024 : 2 * old.room};

    if (2 * old.count < old.room) return SUCCESS;
    if (new.room * sizeof *new.hashes > fsck->options.memory / FACTS_SHARE)
        return failure(err, ERROR_LIMIT, "the dump has more than %zu facts: more memory is needed for them (--memory)",
                       old.count);
    new.hashes = memory_zeroed(new.room, sizeof *new.hashes);
    if (new.hashes == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for facts");
    for (size_t i = 0; i < old.room; i++)
        if (old.hashes[i] != 0) put_facts(&new, old.hashes[i]);
    free(old.hashes);
    fsck->facts = new;
    return SUCCESS;
}

struct result fsck_take_facts(struct fsck *fsck, const struct dump_facts *facts, struct error *err)
{
    uint8_t digest[SHA256_SIZE];

    if (!fsck_is_first(fsck)) return SUCCESS;
    if (fsck->report.facts > 0 && memcmp(fsck->facts_digest, facts->digest.data, sizeof fsck->facts_digest) >= 0)
        return failure(err, ERROR_INVALID, "facts do not come in the order of their digests");
    memcpy(fsck->facts_digest, facts->digest.data, sizeof fsck->facts_digest);
    fsck->report.facts++;
    sha256_of(facts->text, digest);
    if (memcmp(digest, facts->digest.data, sizeof digest) != 0) return SUCCESS; /* each entry that commits to them says so */
    TRY(grow_facts(fsck, err));
    put_facts(&fsck->facts, facts_hash(fsck, digest));
    return SUCCESS;
}

bool fsck_has_facts(const struct fsck *fsck, const uint8_t digest[LEAF_FACTS_DIGEST])
{
    const struct fsck_facts *facts = &fsck->facts;
    const uint64_t hash = facts_hash(fsck, digest);

    if (facts->room == 0) return false;
    size_t at = (size_t)hash & (facts->room - 1);
    while (facts->hashes[at] != 0 && facts->hashes[at] != hash) at = (at + 1) & (facts->room - 1);
    return facts->hashes[at] == hash;
}

/* ---- sums ---- */

static uint64_t key_hash(const struct fsck *fsck, const uint8_t id[LEAF_KEY_ID_SIZE], uint64_t ordinal)
{
    uint8_t text[LEAF_KEY_ID_SIZE + 8];

    memcpy(text, id, LEAF_KEY_ID_SIZE);
    store_u64(text + LEAF_KEY_ID_SIZE, ordinal);
    return table_hash(fsck->secret, (struct bytes){text, sizeof text});
}

static uint64_t term_hash(const struct fsck *fsck, int64_t key)
{
    uint8_t text[8];

    store_u64(text, (uint64_t)key);
    return table_hash(fsck->secret, (struct bytes){text, sizeof text});
}

void fsck_add_sums(struct fsck *fsck, uint64_t number, const struct leaf *leaf)
{
    struct fsck_window *window = &fsck->window;
    const uint64_t at = number - window->first;
    struct search_terms terms;
    uint8_t id[LEAF_KEY_ID_SIZE];

    for (size_t i = 0; i < leaf->key_count; i++) {
        leaf_key_id(leaf->keys[i].name, id);
        window->keys[at] += key_hash(fsck, id, leaf->keys[i].ordinal);
    }
    if (number >= fsck->head.indexed) return;
    search_terms_of(leaf, &terms);
    for (size_t i = 0; i < terms.count; i++) window->terms[at] += term_hash(fsck, terms.keys[i]);
}

/* ---- the index by key ---- */

static void end_key(struct fsck *fsck)
{
    uint8_t text[LEAF_KEY_ID_SIZE + 16];
    struct merkle_hash hash;

    if (!fsck->has_key) return;
    memcpy(text, fsck->run_key, LEAF_KEY_ID_SIZE);
    store_u64(text + LEAF_KEY_ID_SIZE, (uint64_t)fsck->run_ordinal);
    store_u64(text + LEAF_KEY_ID_SIZE + 8, (uint64_t)fsck->run_last);
    merkle_leaf_hash((struct bytes){text, sizeof text}, &hash);
    merkle_append(&fsck->heads, &hash);
    fsck->report.keys++;
}

static void begin_key(struct fsck *fsck, const uint8_t *key)
{
    end_key(fsck);
    fsck->has_key = true;
    memcpy(fsck->run_key, key, sizeof fsck->run_key);
    fsck->run_last = -1;
    fsck->run_ordinal = 0;
}

/* The name of a key is known only to its leaves, so a finding has the number of the entry. */
static bool is_ascending(const struct fsck *fsck, const struct dump_run *run)
{
    int64_t before = fsck->run_last;

    for (size_t at = 0; at < run->sequences.length; at += 8) {
        const int64_t number = (int64_t)load_u64(run->sequences.data + at);
        if (number <= before) return false;
        before = number;
    }
    return before == run->last && (uint64_t)run->last < fsck->head.size;
}

static void take_off(struct fsck *fsck, const struct dump_run *run)
{
    struct fsck_window *window = &fsck->window;
    int64_t ordinal = run->ordinal - (int64_t)run->cardinality;

    for (size_t at = 0; at < run->sequences.length; at += 8) {
        const uint64_t number = load_u64(run->sequences.data + at);
        ordinal++;
        if (fsck_in_window(fsck, number))
            window->keys[number - window->first] -= key_hash(fsck, run->key.data, (uint64_t)ordinal);
    }
}

struct result fsck_take_run(struct fsck *fsck, const struct dump_run *run, struct error *err)
{
    const int order = fsck->has_key ? memcmp(run->key.data, fsck->run_key, sizeof fsck->run_key) : 1;
    const bool is_whole = run->cardinality > 0 && run->sequences.length == (size_t)8 * run->cardinality;

    if (order < 0 || (order == 0 && run->last <= fsck->run_last))
        return failure(err, ERROR_INVALID, "rows of the index by key do not come in the order of their keys");
    if (order > 0) begin_key(fsck, run->key.data);
    const uint64_t number = run->last < 0 ? 0 : (uint64_t)run->last;
    if (fsck_is_first(fsck)) {
        if (!is_whole || !is_ascending(fsck, run))
            fsck_find(fsck, FSCK_KEY_INDEX, number,
                      "a run of a key ends with it, and its numbers overlap, are not ascending, or are after the end of the log");
        else if (run->ordinal - (int64_t)run->cardinality != fsck->run_ordinal)
            fsck_find(
                fsck, FSCK_KEY_INDEX, load_u64(run->sequences.data),
                "it is the number %lld under one of its keys, and the one before is %lld: a number is missing or given twice",
                (long long)(run->ordinal - (int64_t)run->cardinality + 1), (long long)fsck->run_ordinal);
    }
    take_off(fsck, run);
    fsck->run_last = run->last;
    fsck->run_ordinal = run->ordinal;
    return SUCCESS;
}

/* ---- the index of searches ---- */

static struct result read_list(struct fsck *fsck, const struct dump_post *post, struct posting *places, bool *is_sound,
                               enum fsck_kind kind)
{
    struct error why;

    *places = (struct posting){.words = {0}};
    *is_sound = post->block <= (uint64_t)INT64_MAX / DUMP_BLOCK && posting_add(places, post->list, &why).ok;
    if (!*is_sound && fsck_is_first(fsck))
        fsck_find(fsck, kind, post->block <= (uint64_t)INT64_MAX / DUMP_BLOCK ? post->block * DUMP_BLOCK : 0,
                  "a row of block %lld is no list of places", (long long)post->block);
    return SUCCESS;
}

/* The next place from `from` on; DUMP_BLOCK: none. */
static unsigned next_place(const struct posting *places, unsigned from)
{
    while (from < DUMP_BLOCK) {
        const uint64_t left = places->words[from / 64] >> (from % 64);
        if (left != 0) return from + (unsigned)__builtin_ctzll(left);
        from = (from / 64 + 1) * 64;
    }
    return DUMP_BLOCK;
}

static void find_behind(struct fsck *fsck, enum fsck_kind kind, uint64_t number)
{
    if (fsck_is_first(fsck) && number >= fsck->head.size)
        fsck_find(fsck, kind, number, "a row of the index has it, and the log has no such entry");
}

struct result fsck_take_post(struct fsck *fsck, const struct dump_post *post, struct error *err)
{
    struct fsck_window *window = &fsck->window;
    const uint64_t hash = term_hash(fsck, post->key);
    struct posting places;
    bool is_sound = false;

    if (fsck->has_post && (post->key < fsck->post.key || (post->key == fsck->post.key && post->block <= fsck->post.block)))
        return failure(err, ERROR_INVALID, "rows of the index of searches do not come in their order");
    fsck->has_post = true;
    fsck->post = (struct dump_post){.key = post->key, .block = post->block};
    TRY(read_list(fsck, post, &places, &is_sound, FSCK_SEARCH_INDEX));
    if (!is_sound) return SUCCESS;
    for (unsigned i = next_place(&places, 0); i < DUMP_BLOCK; i = next_place(&places, i + 1)) {
        const uint64_t number = post->block * DUMP_BLOCK + i;
        if (fsck_in_window(fsck, number)) window->terms[number - window->first] -= hash;
        find_behind(fsck, FSCK_SEARCH_INDEX, number);
    }
    return SUCCESS;
}

/* ---- the index of addresses: only sijil-keyd can compute its keys, but a row belongs to the person whose sealed part has the address ---- */

static void check_place(struct fsck *fsck, uint64_t number, uint32_t subject)
{
    const struct fsck_window *window = &fsck->window;

    find_behind(fsck, FSCK_ADDRESS_INDEX, number);
    if (!fsck_in_window(fsck, number)) return;
    const uint64_t at = number - window->first;
    if ((window->marks[at] & FSCK_HAS_PAYLOAD) == 0 || window->subjects[at] != subject)
        fsck_find(fsck, FSCK_ADDRESS_INDEX, number, "a row has it under a person that its sealed part is not of");
    else if (number >= fsck->head.indexed)
        fsck_find(fsck, FSCK_ADDRESS_INDEX, number, "a row has it, and the index does not go so far");
}

struct result fsck_take_blind(struct fsck *fsck, const struct dump_post *post, struct error *err)
{
    const uint32_t subject = (uint32_t)table_hash(fsck->secret, post->subject);
    struct posting places;
    bool is_sound = false;

    if (fsck->has_blind && (post->key < fsck->blind.key || (post->key == fsck->blind.key && post->block < fsck->blind.block)))
        return failure(err, ERROR_INVALID, "rows of the index of addresses do not come in their order");
    fsck->has_blind = true;
    fsck->blind = (struct dump_post){.key = post->key, .block = post->block};
    TRY(read_list(fsck, post, &places, &is_sound, FSCK_ADDRESS_INDEX));
    if (!is_sound) return SUCCESS;
    for (unsigned i = next_place(&places, 0); i < DUMP_BLOCK; i = next_place(&places, i + 1))
        check_place(fsck, post->block * DUMP_BLOCK + i, subject);
    return SUCCESS;
}

/* ---- the end of a pass ---- */

void fsck_end_indexes(struct fsck *fsck)
{
    struct fsck_window *window = &fsck->window;

    if (fsck_is_first(fsck)) {
        end_key(fsck);
        fsck->report.heads = merkle_frontier_root(&fsck->heads);
    }
    for (uint64_t number = window->first; number < window->end; number++) {
        const uint64_t at = number - window->first;
        if ((window->marks[at] & FSCK_IS_READ) == 0) continue;
        if (window->keys[at] != 0)
            fsck_find(fsck, FSCK_KEY_INDEX, number, "the index lists it under another number of one of its keys, or not at all");
        if (window->terms[at] != 0)
            fsck_find(fsck, FSCK_SEARCH_INDEX, number,
                      "a search does not find it by one of its words, or finds it by a word that it does not have");
    }
}
