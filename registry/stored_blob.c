#include "registry/stored_blob.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "audit/job_permit.h"
#include "base/clock.h"
#include "base/memory.h"
#include "registry/metrics.h"
#include "registry/recorder.h"
#include "registry/registry_priv.h"
#include "registry/stored_blob_priv.h"
#include "registry/stored_blob_store.h"

#define VERIFY_AGAIN_MAX      ((uint64_t)64 << 20) /* larger blobs keep their mark until a scrub or a new push */
#define VERIFY_AGAIN_EVERY_MS 2000

struct stored_blob {
    struct registry *registry;
    struct resource where;
    char digest[DIGEST_TEXT_SIZE];
    struct blob_row row;
    bool may_read;              /* the permit allows reading the bytes too */
    struct secret *key;         /* from opening to the first read */
    struct blob_reader *reader; /* NULL until the first read */
};

/* ---- Finding ---- */

static struct blob_location location_of(const struct blob_search *search)
{
    return (struct blob_location){.where = &search->where, .digest = search->digest, .lease_s = search->lease_s};
}

static struct result run_search(const struct permit *permit, struct change *change, struct pg *pg, struct error *err)
{
    struct blob_search *search = (struct blob_search *)(void *)change; /* its first member */
    const struct blob_location location = location_of(search);
    bool is_found = false;

    permit_require(permit, search->action, &search->where);
    TRY(blob_row_find(pg, &location, &search->row, &is_found, err));
    search->found = is_found ? BLOB_SEARCH_FOUND : BLOB_SEARCH_MISSED;
    return SUCCESS;
}

static struct result add_search(const struct permit *permit, struct change *change, struct pg *pg, struct error *err)
{
    const struct blob_search *search = (const struct blob_search *)(const void *)change; /* its first member */
    const struct blob_location location = location_of(search);

    permit_require(permit, search->action, &search->where);
    return blob_row_add_find(pg, &location, err);
}

/* If the row can't be read, the search stays open, and stored_blob_find() reports the error. */
static void take_search(struct change *change, const struct pg_rows *answer)
{
    struct blob_search *search = (struct blob_search *)(void *)change; /* its first member */
    struct error ignored = {0};
    bool is_found = false;

    if (blob_row_take_find(answer, search->digest, &search->row, &is_found, &ignored).ok)
        search->found = is_found ? BLOB_SEARCH_FOUND : BLOB_SEARCH_MISSED;
}

void blob_search_prepare(const struct registry *registry, enum action action, const struct resource *where, const char *digest,
                         struct blob_search *search_out)
{
    *search_out = (struct blob_search){
        .change = {.run = run_search, .add = add_search, .take = take_search, .invalidates = CHANGE_INVALIDATES_NOTHING},
        .where = *where,
        .action = action,
        .lease_s = registry->lease_s};
    (void)snprintf(search_out->digest, sizeof search_out->digest, "%s", digest);
}

static void require(const struct permit *permit, const struct blob_query *query)
{
    const struct blob_search *search = query->search;

    permit_require(permit, query->action, query->where);
    assert(query->action == ACTION_BLOB_READ || query->action == ACTION_BLOB_STAT || query->action == ACTION_RUN_FETCH);
    assert(!query->also_held || (query->action == ACTION_RUN_FETCH && search == NULL));
    if (search == NULL) return;
    permit_require(permit, search->action, &search->where);
    assert(search->action == query->action && strcmp(search->digest, query->digest) == 0);
}

/* Makes the object; its row is not read yet. */
static struct stored_blob *make(struct registry *registry, const struct blob_query *query)
{
    struct stored_blob *blob = memory_zeroed(1, sizeof *blob);

    if (blob == NULL) return NULL;
    blob->registry = registry;
    blob->where = *query->where;
    blob->may_read = query->action != ACTION_BLOB_STAT;
    (void)snprintf(blob->digest, sizeof blob->digest, "%s", query->digest);
    return blob;
}

static struct result find_row(struct stored_blob *blob, struct pg *pg, const struct blob_query *query, struct error *err)
{
    const struct blob_location location = {
        .where = &blob->where, .digest = blob->digest, .lease_s = blob->registry->lease_s, .also_held = query->also_held};
    const struct blob_search *search = query->search;
    bool is_found = search != NULL && search->found == BLOB_SEARCH_FOUND;

    if (is_found) blob->row = search->row;
    if (search == NULL || search->found == BLOB_SEARCH_OPEN) TRY(blob_row_find(pg, &location, &blob->row, &is_found, err));
    return is_found ? SUCCESS : failure(err, ERROR_NOT_FOUND, "this repository has no such blob");
}

struct result stored_blob_find(const struct permit *permit, struct registry *registry, struct pg *pg,
                               const struct blob_query *query, struct stored_blob **blob_out, struct error *err)
{
    require(permit, query);
    OWNED(stored_blob) *blob = make(registry, query);
    if (blob == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a blob");
    TRY(find_row(blob, pg, query, err));
    if (!blob->may_read && blob->row.is_due && !blob->row.is_damaged)
        TRY(blob_row_renew(pg, &blob->row.key.id, registry->lease_s, err));
    *blob_out = GIVE(blob);
    return SUCCESS;
}

static struct blob_identity identity_of(const struct stored_blob *blob)
{
    struct blob_identity identity = {.blob = blob->row.key.id, .project = blob->where.project};

    (void)snprintf(identity.region, sizeof identity.region, "%s", blob->where.region);
    return identity;
}

static bool open_cached(struct stored_blob *blob)
{
    struct blob_store *blobs = NULL;
    struct error ignored = {0};

    if (!registry_blobs(blob->registry, blob->where.region, &blobs, &ignored).ok) return false;
    if (!registry_key_cached(blob->registry, &blob->where, &blob->row.key, &blob->key)) return false;
    const struct blob_identity identity = identity_of(blob);
    const bool is_open = blob_reader_open_cached(blobs, &identity, &blob->row.content, blob->key, &blob->reader);
    secret_free(GIVE(blob->key));
    return is_open;
}

bool stored_blob_open_cached(const struct permit *permit, struct registry *registry, const struct blob_query *query,
                             struct stored_blob **blob_out)
{
    require(permit, query);
    if (query->search == NULL || query->search->found != BLOB_SEARCH_FOUND) return false;
    OWNED(stored_blob) *blob = make(registry, query);
    if (blob == NULL) return false;
    blob->row = query->search->row;
    if (blob->row.is_damaged || (!blob->may_read && blob->row.is_due)) return false;
    if (blob->may_read && !open_cached(blob)) return false;
    *blob_out = GIVE(blob);
    return true;
}

uint64_t stored_blob_size(const struct stored_blob *blob)
{
    return blob->row.content.length;
}

bool stored_blob_is_damaged(const struct stored_blob *blob)
{
    return blob->row.is_damaged;
}

struct damage_change {
    struct change change;
    struct resource where;
    struct uuid blob;
};

static struct result run_damage(const struct permit *permit, struct change *change, struct pg *pg, struct error *err)
{
    const struct damage_change *damage = (const struct damage_change *)(const void *)change; /* its first member */

    permit_require(permit, ACTION_BLOB_DAMAGED, &damage->where);
    return blob_row_mark_damaged(pg, &damage->blob, err);
}

void stored_blob_mark(struct registry *registry, const struct resource *where, const struct uuid *blob)
{
    const struct action_pair pair = {.action = ACTION_BLOB_DAMAGED, .resource = *where};
    struct damage_change change = {
        .change = {.run = run_damage, .invalidates = CHANGE_INVALIDATES_NOTHING}, .where = *where, .blob = *blob};
    struct job_recorder recorder;
    OWNED(permit) *permit = NULL;
    struct error ignored = {0};

    if (!permit_for_job(registry->sequencer, &pair, &permit, &ignored).ok) return;
    job_recorder_init(&recorder, registry->sequencer, permit);
    if (recorder.recorder.record(&recorder.recorder, OUTCOME_COMPLETED, "stored bytes do not verify", &change.change, &ignored)
            .ok)
        metric_add(&registry_metrics_rows[METRIC_DAMAGE_READ], 1);
}

/* The caller's error does not change. */
static void mark_damaged(struct stored_blob *blob)
{
    struct resource where = blob->where;

    if (blob->row.is_damaged) return;
    blob->row.is_damaged = true;
    (void)snprintf(where.detail, sizeof where.detail, "%s", blob->digest);
    stored_blob_mark(blob->registry, &where, &blob->row.key.id);
}

struct sound_change {
    struct change change;
    struct resource where;
    const struct uuid *blob;
};

static struct result run_sound(const struct permit *permit, struct change *change, struct pg *pg, struct error *err)
{
    const struct sound_change *sound = (const struct sound_change *)(const void *)change; /* its first member */

    permit_require(permit, ACTION_BLOB_SOUND, &sound->where);
    return blob_row_unmark(pg, sound->blob, err);
}

struct result stored_blob_unmark(struct registry *registry, const struct resource *where, const struct uuid *blob,
                                 struct error *err)
{
    const struct action_pair pair = {.action = ACTION_BLOB_SOUND, .resource = *where};
    struct sound_change change = {
        .change = {.run = run_sound, .invalidates = CHANGE_INVALIDATES_NOTHING}, .where = *where, .blob = blob};
    struct job_recorder recorder;
    OWNED(permit) *permit = NULL;

    TRY(permit_for_job(registry->sequencer, &pair, &permit, err));
    job_recorder_init(&recorder, registry->sequencer, permit);
    const struct result recorded =
        recorder.recorder.record(&recorder.recorder, OUTCOME_COMPLETED, "every record verifies", &change.change, err);
    if (!recorded.ok && err->kind == ERROR_NOT_FOUND) return SUCCESS; /* another reader has removed the mark */
    if (recorded.ok) metric_add(&registry_metrics_rows[METRIC_SOUND], 1);
    return recorded; /* cppcheck-suppress returnDanglingLifetime ; a result is a truth value, and keeps no address */
}

struct result stored_blob_open(struct stored_blob *blob, struct error *err)
{
    assert(blob->may_read);
    return blob->key != NULL || blob->reader != NULL
               ? SUCCESS
               : registry_unwrap(blob->registry, &blob->where, &blob->row.key, &blob->key, err);
}

/* A missing file is damage too, because its row exists. But perhaps the whole region is away, so that is checked first. */
static struct result explain_missing(struct blob_store *blobs, const char *region, struct error *err)
{
    struct error why = {0};

    if (err->kind != ERROR_NOT_FOUND) return (struct result){.ok = false};
    if (!blob_store_check(blobs, &why).ok)
        return failure(err, ERROR_UNAVAILABLE, "region %.63s can't be used: %.160s", region, why.message);
    err->kind = ERROR_CORRUPT;
    return (struct result){.ok = false};
}

static struct result open_reader(struct stored_blob *blob, bool again, struct error *err)
{
    const struct blob_identity identity = identity_of(blob);
    struct blob_store *blobs = NULL;

    if (blob->reader != NULL) return SUCCESS;
    TRY(registry_blobs(blob->registry, blob->where.region, &blobs, err));
    const struct result opened =
        (again ? blob_reader_open_again : blob_reader_open)(blobs, &identity, &blob->row.content, blob->key, &blob->reader, err);
    if (!opened.ok) return explain_missing(blobs, blob->where.region, err);
    secret_free(GIVE(blob->key)); /* the reader has its own copy */
    return SUCCESS;
}

/* Memory, a cable or a controller may have changed bytes that are correct on the disk. */
static struct result read_again(struct stored_blob *blob, uint64_t offset, uint8_t *into, size_t length, struct error *err)
{
    blob_reader_free(GIVE(blob->reader));
    TRY(stored_blob_open(blob, err));
    TRY(open_reader(blob, true, err));
    TRY(blob_reader_read(blob->reader, offset, into, length, err));
    metric_add(&registry_metrics_rows[METRIC_READ_AGAIN], 1);
    return SUCCESS;
}

struct result stored_blob_read(struct stored_blob *blob, uint64_t offset, uint8_t *into, size_t length, struct error *err)
{
    assert(blob->key != NULL || blob->reader != NULL);
    struct result read = open_reader(blob, false, err);
    if (read.ok) read = blob_reader_read(blob->reader, offset, into, length, err);
    if (!read.ok && err->kind == ERROR_CORRUPT) {
        read = read_again(blob, offset, into, length, err);
        if (!read.ok && err->kind == ERROR_CORRUPT) mark_damaged(blob);
    }
    return read;
}

/* At most as many bytes a second as a scrub reads by default, so repeated requests for a damaged blob cost little. */
static bool may_verify_again(struct registry *registry, uint64_t length_bytes)
{
    int64_t last_ms = atomic_load(&registry->verified_again_ms);
    const int64_t now_ms = clock_monotonic_ms();

    if (length_bytes > VERIFY_AGAIN_MAX || (last_ms != 0 && now_ms - last_ms < VERIFY_AGAIN_EVERY_MS)) return false;
    return atomic_compare_exchange_strong(&registry->verified_again_ms, &last_ms, now_ms);
}

static struct result verify_whole(struct stored_blob *blob, struct error *err)
{
    const struct blob_verify_options options = {0};

    TRY(stored_blob_open(blob, err));
    TRY(open_reader(blob, true, err));
    const struct result verified = blob_verify(blob->reader, &options, err);
    blob_reader_free(GIVE(blob->reader)); /* the next read opens it again, with its key */
    return verified;
}

bool stored_blob_is_sound_now(struct stored_blob *blob)
{
    struct resource where = blob->where;
    struct error ignored = {0}; /* on any failure the mark stays */

    if (!blob->row.is_damaged) return true;
    if (!blob->may_read || !may_verify_again(blob->registry, blob->row.content.length)) return false;
    (void)snprintf(where.detail, sizeof where.detail, "%s", blob->digest);
    if (!verify_whole(blob, &ignored).ok) return false;
    blob->row.is_damaged = !stored_blob_unmark(blob->registry, &where, &blob->row.key.id, &ignored).ok;
    return !blob->row.is_damaged;
}

bool stored_blob_read_cached(struct stored_blob *blob, uint64_t offset, uint8_t *into, size_t length)
{
    return blob->reader != NULL && blob_reader_read_cached(blob->reader, offset, into, length);
}

void stored_blob_free(struct stored_blob *blob)
{
    if (blob == NULL) return;
    blob_reader_free(blob->reader);
    secret_free(blob->key);
    free(blob);
}
