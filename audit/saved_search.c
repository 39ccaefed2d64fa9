#include "audit/saved_search.h"

#include <stdio.h>
#include <string.h>

#include "audit/event_priv.h"
#include "audit/saved_search_priv.h"
#include "audit/subject_priv.h"
#include "base/json.h"
#include "base/memory.h"
#include "base/text.h"
#include "crypto/aead.h"
#include "crypto/random.h"

#define LABEL     "sijil-saved-v1"
#define PLAIN_MAX 6144 /* of {"name":...,"search":...} */
#define BOX_MAX   8192 /* as the table allows */

/* ---- keys ---- */

static struct result find_key(const struct search_source *source, const struct saved_owner *owner, uint8_t index_out[32],
                              struct secret **key_out, struct error *err)
{
    const char *const names[2] = {owner->issuer[0] == '\0' ? REGISTRY_ISSUER : owner->issuer, owner->subject};

    TRY(keyd_subject_index(source->keyd, names[0], names[1], index_out, err));
    return subject_key_find(source->keyd, source->pg, names, false, key_out, err);
}

/* ---- opening ---- */

static bool read_plain(struct bytes text, struct saved_search *search)
{
    struct error ignored = {0};
    OWNED_JSON value = NULL;

    if (!json_read(text, PLAIN_MAX, &value, &ignored).ok) return false;
    const char *name = json_text_of(value, "name"), *conditions = json_text_of(value, "search");
    return name != NULL && conditions != NULL && text_copy(search->name, sizeof search->name, name) &&
           text_copy(search->text, sizeof search->text, conditions);
}

/* The id is bound to the box, so a box that was moved to another row does not open. */
static struct result open_row(const struct secret *key, const struct pg_rows *rows, size_t row, struct saved_searches *searches,
                              struct error *err)
{
    struct saved_search *search = &searches->each[searches->count];
    const struct bytes salt = pg_bytes(rows, row, 1), box = pg_bytes(rows, row, 2);
    struct buffer OWNED_BUFFER plain = BUFFER(PLAIN_MAX);
    uint8_t opening[XCHACHA_KEY_SIZE], *destination = NULL;
    struct error ignored = {0};

    search->id = pg_uuid(rows, row, 0);
    search->saved_ms = pg_time_ms(rows, row, 3);
    if (salt.length != 32 || box.length <= BOX_OVERHEAD || box.length - BOX_OVERHEAD >= PLAIN_MAX) return SUCCESS;
    TRY(subject_box_key(key, salt.data, LABEL, opening, err));
    TRY(buffer_reserve(&plain, box.length - BOX_OVERHEAD, &destination, err));
    const bool is_open = box_open(opening, uuid_bytes(&search->id), box, destination, &ignored).ok;
    secret_wipe(opening, sizeof opening);
    plain.length = box.length - BOX_OVERHEAD;
    if (is_open && read_plain(buffer_bytes(&plain), search)) searches->count++;
    secret_wipe(plain.data, plain.length);
    return SUCCESS;
}

struct result saved_search_list(const struct permit *permit, enum action action, const struct search_source *source,
                                const struct saved_owner *owner, struct saved_searches **searches_out, struct error *err)
{
    OWNED(saved_searches) *searches = memory_zeroed(1, sizeof *searches);
    OWNED(secret) *key = NULL;
    OWNED(pg_rows) *rows = NULL;
    uint8_t index[32];

    (void)permit_resource(permit, action);
    if (searches == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for saved searches");
    TRY(find_key(source, owner, index, &key, err));
    TRY(saved_select(source->pg, index, &rows, err));
    for (size_t i = 0; i < pg_rows_count(rows) && searches->count < SAVED_SEARCHES_MAX; i++)
        TRY(open_row(key, rows, i, searches, err));
    *searches_out = GIVE(searches);
    return SUCCESS;
}

void saved_searches_free(struct saved_searches *searches)
{
    if (searches == NULL) return;
    secret_wipe(searches, sizeof *searches);
    free(searches);
}

/* ---- saving ---- */

static struct result write_plain(const struct saved_search *search, struct buffer *plain, struct error *err)
{
    OWNED_JSON value = json_pack("{s:s, s:s}", "name", search->name, "search", search->text);

    if (value == NULL) return failure(err, ERROR_INVALID, "a name or a search that is not UTF-8");
    return json_write_canonical(plain, value, err);
}

static struct result seal(const struct secret *key, const struct saved_search *search, struct saved_search_change *change,
                          struct error *err)
{
    struct buffer OWNED_BUFFER plain = BUFFER(PLAIN_MAX);
    uint8_t sealing[XCHACHA_KEY_SIZE], *destination = NULL;

    TRY(write_plain(search, &plain, err));
    random_bytes(change->salt, sizeof change->salt);
    TRY(subject_box_key(key, change->salt, LABEL, sealing, err));
    TRY(buffer_reserve(&change->box, plain.length + BOX_OVERHEAD, &destination, err));
    box_seal(sealing, uuid_bytes(&change->id), buffer_bytes(&plain), destination);
    change->box.length = plain.length + BOX_OVERHEAD;
    secret_wipe(sealing, sizeof sealing);
    secret_wipe(plain.data, plain.length);
    return SUCCESS;
}

static struct result run_save(const struct permit *permit, struct change *change, struct pg *pg, struct error *err)
{
    const struct saved_search_change *saving = (const struct saved_search_change *)change; /* its first member */
    bool was_there = false;

    (void)permit_resource(permit, ACTION_AUDIT_SAVE);
    if (!uuid_is_nil(&saving->replaced)) TRY(saved_delete(pg, saving->subject, &saving->replaced, &was_there, err));
    return saved_insert(pg, saving, err);
}

struct result saved_search_change_init(struct saved_search_change *change, const struct search_source *source,
                                       const struct saved_owner *owner, const struct saved_search *search, struct error *err)
{
    OWNED(secret) *key = NULL;

    *change = (struct saved_search_change){
        .change = {.run = run_save, .invalidates = CHANGE_INVALIDATES_NOTHING}, .id = uuid_random(), .box = BUFFER(BOX_MAX)};
    TRY(find_key(source, owner, change->subject, &key, err));
    return seal(key, search, change, err);
}

void saved_search_change_done(struct saved_search_change *change)
{
    buffer_done(&change->box);
}

/* ---- removing ---- */

static struct result run_removal(const struct permit *permit, struct change *change, struct pg *pg, struct error *err)
{
    const struct saved_search_removal *removal = (const struct saved_search_removal *)change; /* its first member */
    bool was_there = false;

    (void)permit_resource(permit, ACTION_AUDIT_UNSAVE);
    TRY(saved_delete(pg, removal->subject, &removal->id, &was_there, err));
    return was_there ? SUCCESS : failure(err, ERROR_NOT_FOUND, "you have no saved search of this id");
}

struct result saved_search_removal_init(struct saved_search_removal *removal, const struct search_source *source,
                                        const struct saved_owner *owner, const struct uuid *id, struct error *err)
{
    const char *issuer = owner->issuer[0] == '\0' ? REGISTRY_ISSUER : owner->issuer;

    *removal =
        (struct saved_search_removal){.change = {.run = run_removal, .invalidates = CHANGE_INVALIDATES_NOTHING}, .id = *id};
    return keyd_subject_index(source->keyd, issuer, owner->subject, removal->subject, err);
}
