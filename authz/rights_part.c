#include "authz/rights_part_priv.h"

#include <stdlib.h>
#include <string.h>

#include "authz/snapshot_priv.h"
#include "base/clock.h"
#include "base/memory.h"

static struct result no_memory(struct error *err)
{
    return failure(err, ERROR_NO_MEMORY, "no memory for a snapshot of rights");
}

/* ---- looking ---- */

/* The low bits of a hash choose the slots in a bucket. */
static size_t number_of(const struct rights_part *part, uint64_t hash)
{
    return (size_t)(hash >> 40) & (part->bucket_count - 1);
}

const struct authz_binding *part_bindings_of(const struct rights_part *part, const struct principal *principal, size_t *count_out)
{
    const uint64_t hash = rights_hash_principal(principal);

    return bucket_bindings_of(part->buckets[number_of(part, hash)], principal, hash, count_out);
}

const struct authz_binding *part_binding(const struct rights_part *part, const struct uuid *id)
{
    const uint64_t hash = rights_hash(uuid_bytes(id));
    const struct authz_binding *found = NULL;

    for (size_t i = 0; i < part->bucket_count; i++) {
        const struct authz_binding *here = bucket_binding(part->buckets[i], id, hash);
        if (here != NULL) found = here;
    }
    return found;
}

const struct authz_binding *part_binding_of_key(const struct rights_part *part, const char *key)
{
    const uint64_t hash = rights_hash(bytes_of_text(key));
    const struct authz_binding *found = NULL;

    for (size_t i = 0; i < part->bucket_count && found == NULL; i++) found = bucket_binding_of_key(part->buckets[i], key, hash);
    return found;
}

const struct authz_binding *part_next_binding(const struct rights_part *part, struct part_walk *walk)
{
    while (walk->bucket < part->bucket_count && walk->at == part->buckets[walk->bucket]->count) {
        walk->bucket++;
        walk->at = 0;
    }
    return walk->bucket == part->bucket_count ? NULL : &part->buckets[walk->bucket]->bindings[walk->at++];
}

/* ---- making ---- */

static void rows_free(struct robot_rows *rows)
{
    if (rows == NULL || atomic_fetch_sub(&rows->owners, 1) != 1) return;
    free(rows->robots);
    free(rows);
}

NO_LEAK_BEGIN /* the last part that has them frees them */
    static struct result
    copy_robots(const struct authz_parts *parts, struct rights_part *part, struct error *err)
{
    part->rows = memory_zeroed(1, sizeof *part->rows);
    if (part->rows == NULL) return no_memory(err);
    atomic_init(&part->rows->owners, 1);
    part->rows->robots = memory_zeroed(parts->robot_count + 1, sizeof *part->rows->robots);
    if (part->rows->robots == NULL) return no_memory(err);
    if (parts->robot_count > 0) memcpy(part->rows->robots, parts->robots, parts->robot_count * sizeof *parts->robots);
    part->rows->count = parts->robot_count;
    return SUCCESS;
}
NO_LEAK_END

static struct result make_buckets(struct rights_part *part, size_t bindings, struct error *err)
{
    part->bucket_count = 1;
    while (part->bucket_count * RIGHTS_BUCKET_SIZE < bindings) part->bucket_count *= 2;
    part->buckets = memory_zeroed(part->bucket_count, sizeof(struct rights_bucket *));
    return part->buckets == NULL ? no_memory(err) : SUCCESS;
}

/* Rows on their way into buckets. */
struct filling {
    size_t *numbers, *counts;        /* of each row its bucket; how many each bucket has */
    struct authz_binding **bindings; /* of each bucket; NULL once the bucket has them */
};

static struct result filling_begin(const struct rights_part *part, size_t rows, struct filling *filling, struct error *err)
{
    filling->numbers = memory_zeroed(rows + 1, sizeof *filling->numbers);
    filling->counts = memory_zeroed(part->bucket_count, sizeof *filling->counts);
    filling->bindings = memory_zeroed(part->bucket_count, sizeof(struct authz_binding *));
    return filling->numbers == NULL || filling->counts == NULL || filling->bindings == NULL ? no_memory(err) : SUCCESS;
}

static void filling_done(const struct rights_part *part, struct filling *filling)
{
    for (size_t i = 0; filling->bindings != NULL && i < part->bucket_count; i++) free(filling->bindings[i]);
    free(filling->numbers);
    free(filling->counts);
    free(filling->bindings);
}

static struct result distribute(const struct rights_part *part, const struct authz_parts *parts, struct filling *filling,
                                struct error *err)
{
    for (size_t i = 0; i < parts->binding_count; i++) {
        filling->numbers[i] = number_of(part, rights_hash_grantee(&parts->bindings[i]));
        filling->counts[filling->numbers[i]]++;
    }
    for (size_t i = 0; i < part->bucket_count; i++) {
        filling->bindings[i] = memory_zeroed(filling->counts[i] + 1, sizeof *filling->bindings[i]);
        if (filling->bindings[i] == NULL) return no_memory(err);
        filling->counts[i] = 0;
    }
    for (size_t i = 0; i < parts->binding_count; i++) {
        const size_t number = filling->numbers[i];
        struct authz_binding *binding = &filling->bindings[number][filling->counts[number]++];
        *binding = parts->bindings[i];
        if (binding->role == ROLE_OWN && parts->rules != NULL)
            own_role_resolve(parts->rules, &binding->organisation, &binding->own);
    }
    return SUCCESS;
}

static void count_bindings(struct rights_part *part)
{
    part->binding_count = part->endless_count = part->unsigned_count = 0;
    for (size_t i = 0; i < part->bucket_count; i++) {
        part->binding_count += part->buckets[i]->count;
        part->endless_count += part->buckets[i]->endless_count;
        part->unsigned_count += part->buckets[i]->unsigned_count;
    }
}

static struct result fill(struct rights_part *part, const struct authz_parts *parts, struct filling *filling, struct error *err)
{
    TRY(make_buckets(part, parts->binding_count, err));
    TRY(filling_begin(part, parts->binding_count, filling, err));
    TRY(distribute(part, parts, filling, err));
    for (size_t i = 0; i < part->bucket_count; i++) {
        struct authz_binding *bindings = filling->bindings[i];
        filling->bindings[i] = NULL;
        TRY(rights_bucket_new(bindings, filling->counts[i], &part->buckets[i], err));
    }
    count_bindings(part);
    return SUCCESS;
}

static struct result fill_buckets(struct rights_part *part, const struct authz_parts *parts, struct error *err)
{
    struct filling filling = {0};

    const struct result result = fill(part, parts, &filling, err);
    filling_done(part, &filling);
    return result;
}

static struct result begin(const struct uuid *organisation, struct rights_part **part_out, struct error *err)
{
    struct rights_part *part = memory_zeroed(1, sizeof *part);

    if (part == NULL) return no_memory(err);
    atomic_init(&part->owners, 1);
    part->organisation = *organisation;
    *part_out = part;
    return SUCCESS;
}

static void take_robots(struct rights_part *part)
{
    part->robots = part->rows->robots;
    part->robot_count = part->rows->count;
}

NO_LEAK_BEGIN /* its last holder frees it */
    struct result
    rights_part_new(const struct uuid *organisation, const struct authz_parts *parts, struct rights_part **part_out,
                    struct error *err)
{
    OWNED(rights_part) *part = NULL;

    TRY(begin(organisation, &part, err));
    TRY(copy_robots(parts, part, err));
    take_robots(part);
    TRY(fill_buckets(part, parts, err));
    *part_out = GIVE(part);
    return SUCCESS;
}
NO_LEAK_END

/* ---- making it anew ---- */

/* Changes of one part, with the bucket of each. */
struct renewal {
    const struct binding_change *changes;
    const size_t *numbers;
    size_t count;
    int64_t now_ms;
};

static bool is_changed(const struct renewal *renewal, size_t number, const struct uuid *id)
{
    for (size_t i = 0; i < renewal->count; i++)
        if (renewal->numbers[i] == number && uuid_equal(&renewal->changes[i].binding.id, id)) return true;
    return false;
}

static struct result renew_bucket(const struct renewal *renewal, size_t number, const struct rights_bucket *before,
                                  struct rights_bucket **bucket_out, struct error *err)
{
    struct authz_binding *bindings = memory_zeroed(before->count + renewal->count + 1, sizeof *bindings);
    size_t count = 0;

    if (bindings == NULL) return no_memory(err);
    for (size_t i = 0; i < before->count; i++)
        if (binding_is_kept(&before->bindings[i], renewal->now_ms) && !is_changed(renewal, number, &before->bindings[i].id))
            bindings[count++] = before->bindings[i];
    for (size_t i = 0; i < renewal->count; i++)
        if (renewal->numbers[i] == number && !renewal->changes[i].is_gone) bindings[count++] = renewal->changes[i].binding;
    return rights_bucket_new(bindings, count, bucket_out, err);
}

static struct result renew_buckets(const struct rights_part *before, const struct renewal *renewal, struct rights_part *part,
                                   struct error *err)
{
    part->bucket_count = before->bucket_count;
    part->buckets = memory_zeroed(part->bucket_count, sizeof(struct rights_bucket *));
    if (part->buckets == NULL) return no_memory(err);
    for (size_t i = 0; i < renewal->count; i++) {
        const size_t number = renewal->numbers[i];
        if (part->buckets[number] == NULL)
            TRY(renew_bucket(renewal, number, before->buckets[number], &part->buckets[number], err));
    }
    for (size_t i = 0; i < part->bucket_count; i++)
        if (part->buckets[i] == NULL) part->buckets[i] = rights_bucket_keep(before->buckets[i]);
    count_bindings(part);
    return SUCCESS;
}

static void drop_buckets(struct rights_part *part)
{
    for (size_t i = 0; part->buckets != NULL && i < part->bucket_count; i++) rights_bucket_free(part->buckets[i]);
    free(part->buckets);
    part->buckets = NULL;
}

/* More buckets, once they have become large. */
static struct result spread(struct rights_part *part, struct error *err)
{
    struct authz_binding *bindings = memory_zeroed(part->binding_count, sizeof *bindings);
    const struct authz_parts parts = {.bindings = bindings, .binding_count = part->binding_count};
    const struct authz_binding *binding = NULL;
    struct part_walk walk = {0};
    size_t count = 0;

    if (bindings == NULL) return no_memory(err);
    while ((binding = part_next_binding(part, &walk)) != NULL) bindings[count++] = *binding;
    drop_buckets(part);
    const struct result result = fill_buckets(part, &parts, err);
    free(bindings);
    return result;
}

static struct result renew(const struct rights_part *before, const struct renewal *renewal, struct rights_part **part_out,
                           struct error *err)
{
    OWNED(rights_part) *part = NULL;

    TRY(begin(&before->organisation, &part, err));
    part->rows = before->rows;
    atomic_fetch_add(&part->rows->owners, 1);
    take_robots(part);
    TRY(renew_buckets(before, renewal, part, err));
    if (part->binding_count > part->bucket_count * RIGHTS_BUCKET_GROWN) TRY(spread(part, err));
    *part_out = GIVE(part);
    return SUCCESS;
}

struct result rights_part_renew(const struct rights_part *before, const struct binding_change *changes, size_t count,
                                struct rights_part **part_out, struct error *err)
{
    size_t *numbers = memory_zeroed(count + 1, sizeof *numbers);

    if (numbers == NULL) return no_memory(err);
    for (size_t i = 0; i < count; i++) numbers[i] = number_of(before, rights_hash_grantee(&changes[i].binding));
    const struct renewal renewal = {changes, numbers, count, clock_wall_ms()};
    const struct result result = renew(before, &renewal, part_out, err);
    free(numbers);
    return result;
}

struct rights_part *rights_part_keep(struct rights_part *part)
{
    atomic_fetch_add(&part->owners, 1);
    return part;
}

void rights_part_free(struct rights_part *part)
{
    if (part == NULL || atomic_fetch_sub(&part->owners, 1) != 1) return;
    rows_free(part->rows);
    drop_buckets(part);
    free(part);
}
