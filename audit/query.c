#include "audit/query.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "audit/archive_priv.h"
#include "audit/audit_store.h"
#include "audit/event_priv.h"
#include "audit/format/proof.h"
#include "audit/log_tiles_priv.h"
#include "audit/own_reads.h"
#include "audit/payload_keys_priv.h"
#include "audit/query_priv.h"
#include "base/memory.h"

struct audit_page {
    struct pg_rows *rows;
    struct archived_leaves *archived; /* leaves that are not in the rows */
    struct page_event {
        bool is_readable, has_payload;
        size_t facts_count;
        uint8_t facts[LEAF_TARGETS_MAX][LEAF_FACTS_DIGEST];
    } * events;               /* the contents of the leaves */
    struct page_facts *facts; /* NULL until audit_page_load_facts() */
    struct page_keys keys;
};

static void read_row(const struct audit_page *page, size_t index, struct audit_row *row)
{
    audit_read_row(page->rows, index, row);
    row->leaf = archived_leaf(page->archived, page->rows, index, AUDIT_LEAF_COLUMN);
}

/* Everything under the permit's resource has one key in common. The system has none: it shows all. */
static void add_scope(struct audit_selection *selection, const struct permit *permit, enum action action)
{
    static const char *const kinds[] = {
        [RESOURCE_SYSTEM] = NULL, [RESOURCE_ORGANISATION] = "org:", [RESOURCE_PROJECT] = "prj:", [RESOURCE_REPOSITORY] = "res:"};
    const struct resource *resource = permit_resource(permit, action);
    char name[LEAF_KEY_MAX + 1];

    if (kinds[resource->kind] == NULL) return;
    (void)snprintf(name, sizeof name, "%s%s", kinds[resource->kind], resource->name);
    leaf_key_id(name, selection->keys[selection->key_count++]);
}

/* The index only tells which entries to read. Whether an entry has the key is read from its leaf. */
static bool stands_under(const struct leaf *leaf, const uint8_t key[LEAF_KEY_ID_SIZE])
{
    uint8_t id[LEAF_KEY_ID_SIZE];

    for (size_t i = 0; i < leaf->key_count; i++) {
        leaf_key_id(leaf->keys[i].name, id);
        if (memcmp(id, key, sizeof id) == 0) return true;
    }
    return false;
}

static bool has_its_hash(const struct audit_row *row)
{
    struct merkle_hash hash;

    merkle_leaf_hash(row->leaf, &hash);
    return bytes_equal((struct bytes){hash.bytes, sizeof hash.bytes}, row->hash);
}

/* An entry that can't be read is no change of the log: a newer gateway may have written it (audit_page_is_readable()). */
static struct result check_row(const struct audit_selection *selection, struct audit_page *page, size_t i, struct error *err)
{
    struct page_event *event = &page->events[i];
    struct audit_row row;
    struct error why;
    struct leaf leaf;

    read_row(page, i, &row);
    bool fits = has_its_hash(&row);
    event->is_readable = leaf_read(row.leaf, &leaf, &why).ok;
    if (!event->is_readable && why.kind == ERROR_NO_MEMORY)
        return failure(err, why.kind, "%s", why.message); /* not a change of the log */
    if (fits && !event->is_readable) return SUCCESS;
    event->has_payload = event->is_readable && leaf.has_payload;
    event->facts_count = event->is_readable ? leaf.facts_count : 0;
    if (event->is_readable) memcpy(event->facts, leaf.facts, sizeof event->facts);
    fits = fits && leaf.sequence == row.sequence;
    for (size_t k = 0; fits && k < selection->key_count; k++) fits = stands_under(&leaf, selection->keys[k]);
    fits = fits && (selection->actor == NULL || strcmp(leaf.actor, selection->actor) == 0);
    if (fits) return SUCCESS;
    return failure(err, ERROR_FORKED, "entry %llu of the log does not match its row, or the index of keys",
                   (unsigned long long)row.sequence);
}

static struct result check_page(const struct audit_selection *selection, struct pg *pg, struct audit_page *page,
                                struct error *err)
{
    const size_t count = pg_rows_count(page->rows), columns[2] = {AUDIT_SEQUENCE_COLUMN, AUDIT_LEAF_COLUMN};

    page->events = memory_zeroed(count + 1, sizeof *page->events);
    if (page->events == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for events");
    page->archived = archived_share(selection->kept, page->rows, columns);
    if (page->archived == NULL) TRY(archived_load(pg, page->rows, columns, &page->archived, err));
    for (size_t i = 0; i < count; i++) TRY(check_row(selection, page, i, err));
    return SUCCESS;
}

struct result audit_page_select(struct pg *pg, const struct audit_selection *selection, struct audit_page **page_out,
                                struct error *err)
{
    OWNED(audit_page) *page = memory_zeroed(1, sizeof *page);

    if (page == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for events");
    TRY(audit_select(pg, selection, &page->rows, err));
    TRY(check_page(selection, pg, page, err));
    *page_out = GIVE(page);
    return SUCCESS;
}

struct result audit_list(const struct permit *permit, struct pg *pg, const struct audit_filter *filter,
                         struct audit_page **page_out, struct error *err)
{
    struct audit_selection selection = {.ascending = filter->ascending, .limit = filter->limit};

    if (filter->limit == 0 || filter->limit > AUDIT_PAGE_MAX || filter->from > INT64_MAX || filter->until > INT64_MAX)
        return failure(err, ERROR_INVALID, "a page has 1 to %d events", AUDIT_PAGE_MAX - 1);
    selection.from = filter->from;
    selection.until = filter->until;
    add_scope(&selection, permit, ACTION_AUDIT_READ);
    if (filter->key != NULL) leaf_key_id(filter->key, selection.keys[selection.key_count++]);
    return audit_page_select(pg, &selection, page_out, err);
}

static struct result find(const struct permit *permit, struct pg *pg, enum action action, uint64_t sequence,
                          struct audit_page **page_out, struct error *err)
{
    struct audit_selection selection = {.from = sequence, .until = sequence + 1, .limit = 1};
    OWNED(audit_page) *page = NULL;

    if (sequence >= INT64_MAX) return failure(err, ERROR_NOT_FOUND, "there is no such event");
    add_scope(&selection, permit, action);
    TRY(audit_page_select(pg, &selection, &page, err));
    const bool is_hidden =
        audit_page_count(page) > 0 && selection.key_count > 0 && !audit_page_is_readable(page, 0); /* its resource is unknown */
    if (audit_page_count(page) == 0 || is_hidden) return failure(err, ERROR_NOT_FOUND, "there is no such event");
    *page_out = GIVE(page);
    return SUCCESS;
}

struct result audit_find(const struct permit *permit, struct pg *pg, uint64_t sequence, struct audit_page **page_out,
                         struct error *err)
{
    return find(permit, pg, ACTION_AUDIT_READ, sequence, page_out, err);
}

struct result audit_page_between_kept(struct pg *pg, uint64_t from, uint64_t until, struct archived_leaves *kept,
                                      struct audit_page **page_out, struct error *err)
{
    const struct audit_selection selection = {
        .ascending = true, .from = from, .until = until, .limit = AUDIT_PAGE_MAX, .kept = kept};

    return audit_page_select(pg, &selection, page_out, err);
}

struct result audit_page_between(struct pg *pg, uint64_t from, uint64_t until, struct audit_page **page_out, struct error *err)
{
    return audit_page_between_kept(pg, from, until, NULL, page_out, err);
}

struct result audit_page_of_numbers(struct pg *pg, const int64_t *sequences, size_t count, struct audit_page **page_out,
                                    struct error *err)
{
    const struct audit_selection any = {.key_count = 0};
    OWNED(audit_page) *page = memory_zeroed(1, sizeof *page);

    if (page == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for events");
    TRY(audit_select_numbers(pg, sequences, count, &page->rows, err));
    TRY(check_page(&any, pg, page, err));
    *page_out = GIVE(page);
    return SUCCESS;
}

struct bytes audit_page_subject(const struct audit_page *page, size_t index)
{
    struct audit_row row;

    read_row(page, index, &row);
    return row.subject;
}

struct bytes audit_page_salt(const struct audit_page *page, size_t index)
{
    struct audit_row row;

    read_row(page, index, &row);
    return row.salt;
}

size_t audit_page_count(const struct audit_page *page)
{
    return pg_rows_count(page->rows);
}

uint64_t audit_page_sequence(const struct audit_page *page, size_t index)
{
    struct audit_row row;

    read_row(page, index, &row);
    return row.sequence;
}

struct bytes audit_page_leaf(const struct audit_page *page, size_t index)
{
    struct audit_row row;

    read_row(page, index, &row);
    return row.leaf;
}

bool audit_page_is_readable(const struct audit_page *page, size_t index)
{
    return page->events[index].is_readable;
}

static struct result check_beside(const struct audit_page *page, size_t index, const struct audit_row *row, struct error *err)
{
    if (!page->events[index].is_readable || page->events[index].has_payload || row->salt.length == 0) return SUCCESS;
    return failure(err, ERROR_CORRUPT, "the database has a payload of event %llu, which committed to none",
                   (unsigned long long)row->sequence);
}

static bool is_sealed(const struct audit_row *row)
{
    return row->wrapped_key.length > 0 && row->box.length > 0;
}

struct result audit_page_payload_of(struct audit_page *page, size_t index, const struct leaf *leaf,
                                    const struct payload_opener *with, struct buffer *payload, struct error *err)
{
    struct audit_row row;

    read_row(page, index, &row);
    TRY(check_beside(page, index, &row, err));
    return is_sealed(&row) ? page_keys_open(&page->keys, &row, leaf, with, payload, err) : SUCCESS;
}

struct result audit_page_payload(struct audit_page *page, size_t index, struct keyd_client *keyd, const char *origin,
                                 struct buffer *payload, struct error *err)
{
    struct audit_row row;
    struct leaf leaf;

    read_row(page, index, &row);
    TRY(check_beside(page, index, &row, err));
    if (!is_sealed(&row)) return SUCCESS;
    TRY(leaf_read(row.leaf, &leaf, err));
    return audit_page_payload_of(page, index, &leaf, &(struct payload_opener){keyd, origin, NULL}, payload, err);
}

const char *audit_page_missing(const struct audit_page *page, size_t index)
{
    struct audit_row row;

    read_row(page, index, &row);
    if (!page->events[index].has_payload) return NULL;
    if (row.box.length == 0) return "payload";
    return row.wrapped_key.length == 0 ? "key" : NULL;
}

bool audit_page_is_sealed(const struct audit_page *page, size_t index)
{
    return page->events[index].has_payload;
}

size_t audit_page_facts_count(const struct audit_page *page, size_t index)
{
    return page->events[index].facts_count;
}

struct bytes audit_page_facts_digest(const struct audit_page *page, size_t index, size_t target)
{
    return (struct bytes){page->events[index].facts[target], LEAF_FACTS_DIGEST};
}

struct page_facts *audit_page_keep_facts(struct audit_page *page, struct page_facts *facts)
{
    struct page_facts *before = page->facts;

    page->facts = facts;
    return before;
}

const struct page_facts *audit_page_kept_facts(const struct audit_page *page)
{
    return page->facts;
}

void audit_page_free(struct audit_page *page)
{
    if (page == NULL) return;
    page_facts_free(page->facts);
    page_keys_done(&page->keys);
    free(page->events);
    archived_leaves_free(page->archived);
    pg_rows_free(page->rows);
    free(page);
}

struct result audit_prove_inclusion(struct pg *pg, uint64_t sequence, uint64_t size, struct merkle_proof *proof_out,
                                    struct error *err)
{
    struct log_tiles *log = memory_zeroed(1, sizeof *log);

    if (log == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a proof");
    log_tiles_init(log, pg, size);
    const struct result proven = merkle_prove_inclusion(&log->tiles.source, sequence, size, proof_out, err);
    free(log);
    return proven;
}

/* A proof is verified before it is returned, because its recipient may keep it for years before using it. */
static struct result check_proof(const struct signed_checkpoint *checkpoint, uint64_t sequence, struct bytes leaf,
                                 const struct merkle_proof *proof, struct error *err)
{
    struct merkle_hash hash;

    if (leaf.length <= MERKLE_ENTRY_MAX) {
        merkle_leaf_hash(leaf, &hash);
        if (merkle_verify_inclusion(sequence, checkpoint->size, &hash, proof, &checkpoint->root)) return SUCCESS;
    }
    return failure(err, ERROR_FORKED,
                   "entry %llu of the log, or a tile above it, is not as it was signed: no proof leads from it to "
                   "the root of %llu entries",
                   (unsigned long long)sequence, (unsigned long long)checkpoint->size);
}

struct result audit_prove_under(struct pg *pg, const struct signed_checkpoint *checkpoint, uint64_t sequence, struct bytes leaf,
                                struct buffer *proof, struct error *err)
{
    struct tlog_proof parts = {.index = sequence, .note = bytes_of_text(checkpoint->note)};

    if (sequence >= checkpoint->size)
        return failure(err, ERROR_UNAVAILABLE, "event %llu is recorded but not signed yet; ask again in a second",
                       (unsigned long long)sequence);
    TRY(audit_prove_inclusion(pg, sequence, checkpoint->size, &parts.inclusion, err));
    TRY(check_proof(checkpoint, sequence, leaf, &parts.inclusion, err));
    return tlog_proof_write(&parts, proof, err);
}

struct result audit_prove(const struct permit *permit, struct pg *pg, uint64_t sequence,
                          const struct signed_checkpoint *checkpoint, struct buffer *proof, struct error *err)
{
    OWNED(audit_page) *page = NULL;

    TRY(audit_find(permit, pg, sequence, &page, err));
    return audit_prove_under(pg, checkpoint, sequence, audit_page_leaf(page, 0), proof, err);
}

/* An event with one of two actions, for a permit of `action`. */
struct entry_wanted {
    enum action action;
    uint64_t sequence;
    const struct signed_checkpoint *checkpoint;
    const enum action *actions;
};

static struct result prove_one_of(const struct permit *permit, struct pg *pg, const struct entry_wanted *wanted,
                                  const struct proven_entry *proven, struct error *err)
{
    OWNED(audit_page) *page = NULL;
    struct leaf leaf;

    TRY(find(permit, pg, wanted->action, wanted->sequence, &page, err));
    const struct bytes bytes = audit_page_leaf(page, 0);
    TRY(leaf_read(bytes, &leaf, err));
    if (strcmp(leaf.targets[0].action, action_name(wanted->actions[0])) != 0 &&
        strcmp(leaf.targets[0].action, action_name(wanted->actions[1])) != 0)
        return failure(err, ERROR_NOT_FOUND, "there is no such event");
    TRY(audit_prove_under(pg, wanted->checkpoint, wanted->sequence, bytes, proven->proof, err));
    return buffer_add(proven->entry, bytes.data, bytes.length, err);
}

struct result audit_prove_deletion(const struct permit *permit, struct pg *pg, uint64_t sequence,
                                   const struct signed_checkpoint *checkpoint, const struct proven_entry *proven,
                                   struct error *err)
{
    static const enum action actions[2] = {ACTION_KEY_FORGOTTEN, ACTION_KEY_FORGOTTEN};
    const struct entry_wanted wanted = {ACTION_DELETION_CERTIFY, sequence, checkpoint, actions};

    return prove_one_of(permit, pg, &wanted, proven, err);
}

struct result audit_prove_erasure(const struct permit *permit, struct pg *pg, uint64_t sequence,
                                  const struct signed_checkpoint *checkpoint, const struct proven_entry *proven,
                                  struct error *err)
{
    static const enum action actions[2] = {ACTION_AUDIT_ERASE, ACTION_SUBJECT_ERASE};
    const struct entry_wanted wanted = {ACTION_ERASURE_READ, sequence, checkpoint, actions};

    return prove_one_of(permit, pg, &wanted, proven, err);
}

struct result audit_prove_own(const struct permit *permit, struct pg *pg, const struct own_entry *own,
                              const struct proven_entry *proven, struct error *err)
{
    OWNED(audit_page) *page = NULL;
    struct leaf leaf;

    TRY(find(permit, pg, ACTION_SUBJECT_READ, own->sequence, &page, err));
    const struct bytes bytes = audit_page_leaf(page, 0);
    TRY(leaf_read(bytes, &leaf, err));
    if (strcmp(leaf.actor, own->actor) != 0) return failure(err, ERROR_NOT_FOUND, "there is no such event of yours");
    if (strcmp(leaf.outcome, "denied") == 0)
        return failure(err, ERROR_NOT_FOUND,
                       "a denied request has no receipt: the numbers in its event would tell how much others do there");
    TRY(audit_prove_under(pg, own->checkpoint, own->sequence, bytes, proven->proof, err));
    return buffer_add(proven->entry, bytes.data, bytes.length, err);
}
