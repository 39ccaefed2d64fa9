#include "audit/format/fork.h"

#include <inttypes.h>
#include <string.h>

#include "audit/format/text_rules_priv.h"
#include "base/memory.h"
#include "base/text.h"

#define EVIDENCE_MAGIC "sijil-fork-evidence/v1"

static struct result read_side(const struct log_keys *keys, struct bytes text, struct checkpoint *checkpoint, struct error *err)
{
    struct note note;

    TRY(note_read(text, &note, err));
    return log_keys_verify(keys, &note, checkpoint, NULL, err);
}

struct result fork_pair_read(struct bytes vkey, struct bytes first, struct bytes second, struct fork_pair *pair_out,
                             struct error *err)
{
    struct fork_pair pair = {.notes = {first, second}};

    TRY(log_keys_read(vkey, &pair.keys, err));
    for (size_t i = 0; i < 2; i++) {
        const struct result read = read_side(&pair.keys, pair.notes[i], &pair.checkpoints[i], err);
        if (!read.ok && err->kind == ERROR_INVALID) err->kind = ERROR_DENIED;
        TRY(read);
    }
    *pair_out = pair;
    if (pair.checkpoints[0].size <= pair.checkpoints[1].size) return SUCCESS;
    for (size_t i = 0; i < 2; i++) {
        pair_out->notes[i] = pair.notes[1 - i];
        pair_out->checkpoints[i] = pair.checkpoints[1 - i];
    }
    return SUCCESS;
}

struct result fork_decide(const struct fork_pair *pair, const struct fork_prefix *prefix, enum fork_verdict *verdict_out,
                          struct error *err)
{
    const struct checkpoint *old = &pair->checkpoints[0], *new = &pair->checkpoints[1];
    const struct merkle_hash *at_old_size = prefix == NULL ? &new->root : &prefix->root;

    if (prefix == NULL && old->size != new->size)
        return failure(err, ERROR_DENIED,
                       "the checkpoints are of %" PRIu64 " and %" PRIu64 " entries: a proof is needed from one to the other",
                       old->size, new->size);
    if (prefix != NULL &&
        (old->size == 0 || !merkle_verify_consistency(old->size, new->size, &prefix->root, &new->root, &prefix->proof)))
        return failure(err, ERROR_DENIED, "the proof does not lead to the signed root of %" PRIu64 " entries, so it says nothing",
                       new->size);
    *verdict_out = merkle_hash_equal(at_old_size, &old->root) ? (prefix == NULL ? FORK_SAME : FORK_CONTINUES) : FORK_PROVEN;
    return SUCCESS;
}

bool fork_prefix_of_proof(const struct fork_pair *pair, const struct merkle_proof *proof, struct fork_prefix *prefix_out)
{
    const uint64_t old_size = pair->checkpoints[0].size;
    struct fork_prefix prefix = {.proof = *proof};

    if (!merkle_consistency_prefix(old_size, pair->checkpoints[1].size, proof, &prefix.root)) return false;
    *prefix_out = prefix;
    return true;
}

/* ---- from all entries ---- */

#define NODES_MAX 512 /* of two roots and a proof: at most 63 levels, each with a few complete subtrees */

struct fork_walk {
    struct merkle_source source; /* first member */
    uint64_t old_size, size, next;
    size_t count;
    bool is_known, is_full;
    struct walk_node {
        unsigned level;
        uint64_t index;
        struct merkle_frontier tree;
    } nodes[NODES_MAX];
};

static struct walk_node *find_node(struct fork_walk *walk, unsigned level, uint64_t index)
{
    for (size_t i = 0; i < walk->count; i++)
        if (walk->nodes[i].level == level && walk->nodes[i].index == index) return &walk->nodes[i];
    return NULL;
}

/* First it notes which nodes are asked for; later it knows them. */
static struct result node_of_walk(struct merkle_source *source, unsigned level, uint64_t index, struct merkle_hash *hash_out,
                                  struct error *err)
{
    struct fork_walk *walk = (struct fork_walk *)(void *)source;
    const struct walk_node *node = find_node(walk, level, index);

    *hash_out = node != NULL && walk->is_known ? merkle_frontier_root(&node->tree) : (struct merkle_hash){{0}};
    if (node != NULL) return SUCCESS;
    if (walk->is_known || walk->count == NODES_MAX) return failure(err, ERROR_INVALID, "a proof asks for more nodes than any");
    walk->nodes[walk->count].level = level;
    walk->nodes[walk->count++].index = index;
    return SUCCESS;
}

static struct result compute(struct fork_walk *walk, struct fork_prefix *prefix, struct error *err)
{
    TRY(merkle_root_at(&walk->source, walk->old_size, &prefix->root, err));
    return merkle_prove_consistency(&walk->source, walk->old_size, walk->size, &prefix->proof, err);
}

struct result fork_walk_new(const struct fork_pair *pair, struct fork_walk **walk_out, struct error *err)
{
    OWNED(fork_walk) *walk = memory_zeroed(1, sizeof *walk);
    struct fork_prefix unknown;

    if (walk == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for comparing two logs");
    walk->source.node = node_of_walk;
    walk->old_size = pair->checkpoints[0].size;
    walk->size = pair->checkpoints[1].size;
    if (walk->old_size == 0)
        return failure(err, ERROR_DENIED, "each log begins with an empty one, so a checkpoint of no entries says nothing");
    TRY(compute(walk, &unknown, err));
    *walk_out = GIVE(walk);
    return SUCCESS;
}

void fork_walk_free(struct fork_walk *walk)
{
    free(walk);
}

void fork_walk_add(struct fork_walk *walk, const struct merkle_hash *leaf_hash)
{
    const uint64_t number = walk->next++;

    for (size_t i = 0; i < walk->count; i++)
        if (number >> walk->nodes[i].level == walk->nodes[i].index) merkle_append(&walk->nodes[i].tree, leaf_hash);
}

struct result fork_walk_end(struct fork_walk *walk, struct fork_prefix *prefix_out, struct error *err)
{
    if (walk->next < walk->size)
        return failure(err, ERROR_INVALID, "there are %" PRIu64 " entries, and the longer checkpoint is of %" PRIu64, walk->next,
                       walk->size);
    walk->is_known = true;
    return compute(walk, prefix_out, err);
}

/* ---- the file ---- */

static struct result write_hash(struct buffer *text, const char *before, const struct merkle_hash *hash, struct error *err)
{
    TRY(buffer_add_text(text, before, err));
    TRY(text_base64(text, BASE64_STANDARD, (struct bytes){hash->bytes, sizeof hash->bytes}, err));
    return buffer_add_u8(text, '\n', err);
}

struct result fork_evidence_write(const struct fork_pair *pair, const struct fork_prefix *prefix, struct buffer *text,
                                  struct error *err)
{
    TRY(buffer_format(text, err, EVIDENCE_MAGIC "\n%zu %zu\n", pair->notes[0].length, pair->notes[1].length));
    if (prefix != NULL) {
        TRY(write_hash(text, "prefix ", &prefix->root, err));
        for (size_t i = 0; i < prefix->proof.count; i++) TRY(write_hash(text, "", &prefix->proof.hashes[i], err));
    }
    TRY(buffer_add_u8(text, '\n', err));
    TRY(buffer_add(text, pair->notes[0].data, pair->notes[0].length, err));
    return buffer_add(text, pair->notes[1].data, pair->notes[1].length, err);
}

static struct result no_evidence(struct error *err, const char *what)
{
    return failure(err, ERROR_INVALID, "this is no evidence of a fork: %s", what);
}

static bool read_hash(struct bytes line, struct merkle_hash *hash)
{
    return text_from_base64_exactly(BASE64_STANDARD, line, hash->bytes, sizeof hash->bytes);
}

static bool take_word(struct bytes *line, const char *word)
{
    const size_t length = strlen(word);

    if (line->length < length || memcmp(line->data, word, length) != 0) return false;
    *line = (struct bytes){line->data + length, line->length - length};
    return true;
}

/* The lengths of the two notes: "FIRST SECOND". */
static bool read_lengths(struct bytes line, uint64_t lengths[2])
{
    const uint8_t *space = line.length == 0 ? NULL : memchr(line.data, ' ', line.length);

    if (space == NULL) return false;
    const size_t first = (size_t)(space - line.data);
    return text_to_u64((struct bytes){line.data, first}, FORK_NOTE_MAX, &lengths[0]) &&
           text_to_u64((struct bytes){space + 1, line.length - first - 1}, FORK_NOTE_MAX, &lengths[1]);
}

static struct result read_proof(struct bytes *left, bool *has_prefix, struct fork_prefix *prefix, struct error *err)
{
    struct bytes line;

    *has_prefix = false;
    if (!next_line(left, &line)) return no_evidence(err, "it ends before its notes");
    if (line.length == 0) return SUCCESS;
    *has_prefix = true;
    prefix->proof.count = 0;
    if (!take_word(&line, "prefix ") || !read_hash(line, &prefix->root))
        return no_evidence(err, "its root of the prefix can't be read");
    for (;;) {
        if (!next_line(left, &line)) return no_evidence(err, "it ends before its notes");
        if (line.length == 0) return SUCCESS;
        if (prefix->proof.count == MERKLE_PROOF_MAX || !read_hash(line, &prefix->proof.hashes[prefix->proof.count++]))
            return no_evidence(err, "a hash of its proof can't be read");
    }
}

struct result fork_evidence_check(struct bytes vkey, struct bytes text, struct fork_pair *pair_out, struct error *err)
{
    struct fork_prefix prefix;
    struct fork_pair pair;
    enum fork_verdict verdict = FORK_SAME;
    struct bytes left = text, line;
    uint64_t lengths[2];
    bool has_prefix = false;

    if (text.length > FORK_EVIDENCE_MAX || !next_line(&left, &line) || !bytes_equal(line, bytes_of_text(EVIDENCE_MAGIC)))
        return no_evidence(err, "it does not begin with \"" EVIDENCE_MAGIC "\"");
    if (!next_line(&left, &line) || !read_lengths(line, lengths)) return no_evidence(err, "its second line is no two lengths");
    TRY(read_proof(&left, &has_prefix, &prefix, err));
    if (lengths[0] + lengths[1] != left.length) return no_evidence(err, "its notes have other lengths");
    const struct bytes first = {left.data, (size_t)lengths[0]}, second = {left.data + lengths[0], (size_t)lengths[1]};
    TRY(fork_pair_read(vkey, first, second, &pair, err));
    if (has_prefix == (pair.checkpoints[0].size == pair.checkpoints[1].size))
        return no_evidence(err, "a proof belongs to checkpoints of different sizes, and only to those");
    TRY(fork_decide(&pair, has_prefix ? &prefix : NULL, &verdict, err));
    if (verdict != FORK_PROVEN) return failure(err, ERROR_DENIED, "both checkpoints are of one log: there is no fork");
    *pair_out = pair;
    return SUCCESS;
}

struct result fork_report_text(const struct fork_pair *pair, enum fork_verdict verdict, struct buffer *text, struct error *err)
{
    const struct checkpoint *old = &pair->checkpoints[0], *new = &pair->checkpoints[1];

    if (verdict == FORK_SAME)
        return buffer_format(text, err, "The same: both checkpoints are of the first %" PRIu64 " entries of %s.\n", old->size,
                             old->origin);
    if (verdict == FORK_CONTINUES)
        return buffer_format(text, err,
                             "One log: the %" PRIu64 " entries of %s begin with the %" PRIu64 " that were signed before.\n",
                             new->size, new->origin, old->size);
    return buffer_format(
        text, err,
        "FORKED: the key of %s has signed two logs. The one of %" PRIu64 " entries does not begin with the %" PRIu64
        " entries of the other.\n\nThis is proven by the two signatures, whoever shows them. One of the two logs was shown to somebody in place of "
        "the other.\n",
        old->origin, new->size, old->size);
}
