#include "authz/rights_bucket_priv.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "authz/snapshot_priv.h"
#include "base/memory.h"
#include "crypto/hmac.h"
#include "crypto/random.h"

static uint8_t hash_key[TABLE_KEY_SIZE];
static pthread_once_t hash_key_is_drawn = PTHREAD_ONCE_INIT;

static void draw_hash_key(void)
{
    random_bytes(hash_key, sizeof hash_key);
}

uint64_t rights_hash(struct bytes name)
{
    (void)pthread_once(&hash_key_is_drawn, draw_hash_key);
    return table_hash(hash_key, name);
}

struct result index_new(size_t count, struct index_table *table, struct error *err)
{
    size_t slots = 8;

    while (slots < count * 2) slots *= 2;
    table->slots = memory_zeroed(slots, sizeof *table->slots);
    if (table->slots == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a snapshot of rights");
    table->mask = slots - 1;
    return SUCCESS;
}

uint64_t index_next(const struct index_table *table, uint64_t *at)
{
    return table->slots[(*at)++ & table->mask];
}

void index_add(struct index_table *table, uint64_t hash, uint64_t entry)
{
    uint64_t at = hash;

    while (table->slots[at & table->mask] != 0) at++;
    table->slots[at & table->mask] = entry + 1;
}

static uint64_t hash_of_external(const char *issuer, const char *subject)
{
    return rights_hash(bytes_of_text(issuer)) * 31 + rights_hash(bytes_of_text(subject));
}

uint64_t rights_hash_grantee(const struct authz_binding *binding)
{
    return binding->kind == PRINCIPAL_ROBOT ? rights_hash(uuid_bytes(&binding->robot))
                                            : hash_of_external(binding->issuer, binding->subject);
}

uint64_t rights_hash_principal(const struct principal *principal)
{
    return principal->kind == PRINCIPAL_ROBOT ? rights_hash(uuid_bytes(&principal->id))
                                              : hash_of_external(principal->issuer, principal->subject);
}

const struct authz_binding *bucket_binding(const struct rights_bucket *bucket, const struct uuid *id, uint64_t hash)
{
    for (uint64_t entry; (entry = index_next(&bucket->by_id, &hash)) != 0;)
        if (uuid_equal(&bucket->bindings[entry - 1].id, id)) return &bucket->bindings[entry - 1];
    return NULL;
}

static bool is_binding_of(const struct authz_binding *binding, const struct principal *principal)
{
    if (binding->kind != principal->kind) return false;
    if (binding->kind == PRINCIPAL_ROBOT) return uuid_equal(&binding->robot, &principal->id);
    return strcmp(binding->issuer, principal->issuer) == 0 && strcmp(binding->subject, principal->subject) == 0;
}

const struct authz_binding *bucket_bindings_of(const struct rights_bucket *bucket, const struct principal *principal,
                                               uint64_t hash, size_t *count_out)
{
    for (uint64_t entry; (entry = index_next(&bucket->first_of, &hash)) != 0;) {
        const struct authz_binding *first = &bucket->bindings[entry - 1];
        if (!is_binding_of(first, principal)) continue;
        const struct authz_binding *end = bucket->bindings + bucket->count, *next = first + 1;
        while (next < end && binding_same_principal(first, next)) next++;
        *count_out = (size_t)(next - first);
        return first;
    }
    *count_out = 0;
    return NULL;
}

static void key_of(const struct authz_binding *binding, char key_out[PRINCIPAL_KEY_SIZE])
{
    struct principal principal = {.kind = PRINCIPAL_EXTERNAL};

    (void)snprintf(principal.issuer, sizeof principal.issuer, "%s", binding->issuer);
    (void)snprintf(principal.subject, sizeof principal.subject, "%s", binding->subject);
    principal_key(&principal, key_out);
}

const struct authz_binding *bucket_binding_of_key(const struct rights_bucket *bucket, const char *key, uint64_t hash)
{
    char other[PRINCIPAL_KEY_SIZE];

    for (uint64_t entry; (entry = index_next(&bucket->first_of_key, &hash)) != 0;) {
        key_of(&bucket->bindings[entry - 1], other);
        if (strcmp(other, key) == 0) return &bucket->bindings[entry - 1];
    }
    return NULL;
}

static void index_key(struct rights_bucket *bucket, size_t at)
{
    char key[PRINCIPAL_KEY_SIZE];

    if (bucket->bindings[at].kind != PRINCIPAL_EXTERNAL) return;
    key_of(&bucket->bindings[at], key);
    index_add(&bucket->first_of_key, rights_hash(bytes_of_text(key)), at);
}

/* Robots before external principals, then by the identity of the principal. */
static int compare_principals(const void *a, const void *b)
{
    const struct authz_binding *left = a, *right = b;

    if (left->kind != right->kind) return left->kind < right->kind ? -1 : 1;
    if (left->kind == PRINCIPAL_ROBOT) return memcmp(left->robot.bytes, right->robot.bytes, sizeof left->robot.bytes);
    const int issuers = strcmp(left->issuer, right->issuer);
    return issuers != 0 ? issuers : strcmp(left->subject, right->subject);
}

static struct result index_bindings(struct rights_bucket *bucket, struct error *err)
{
    TRY(index_new(bucket->count, &bucket->by_id, err));
    TRY(index_new(bucket->count, &bucket->first_of, err));
    TRY(index_new(bucket->count, &bucket->first_of_key, err));
    for (size_t i = 0; i < bucket->count; i++) {
        const struct authz_binding *binding = &bucket->bindings[i];
        const uint64_t hash = rights_hash(uuid_bytes(&binding->id));
        if (binding->role > ROLE_OWN || bucket_binding(bucket, &binding->id, hash) != NULL)
            return failure(err, ERROR_CORRUPT, "a binding is there twice, or has a role that is not known");
        index_add(&bucket->by_id, hash, i);
        if (i > 0 && binding_same_principal(binding, binding - 1)) continue;
        index_add(&bucket->first_of, rights_hash_grantee(binding), i);
        index_key(bucket, i);
    }
    return SUCCESS;
}

NO_LEAK_BEGIN /* its last holder frees it */
    struct result
    rights_bucket_new(struct authz_binding *bindings, size_t count, struct rights_bucket **bucket_out, struct error *err)
{
    OWNED(rights_bucket) *bucket = memory_zeroed(1, sizeof *bucket);

    if (bucket == NULL) {
        free(bindings);
        return failure(err, ERROR_NO_MEMORY, "no memory for a snapshot of rights");
    }
    atomic_init(&bucket->owners, 1);
    bucket->bindings = bindings;
    bucket->count = count;
    for (size_t i = 0; i < count; i++) {
        bucket->endless_count += bindings[i].expires_ms == 0;
        bucket->unsigned_count += bindings[i].is_unsigned;
    }
    if (count > 0) qsort(bindings, count, sizeof *bindings, compare_principals);
    TRY(index_bindings(bucket, err));
    *bucket_out = GIVE(bucket);
    return SUCCESS;
}
NO_LEAK_END

struct rights_bucket *rights_bucket_keep(struct rights_bucket *bucket)
{
    atomic_fetch_add(&bucket->owners, 1);
    return bucket;
}

void rights_bucket_free(struct rights_bucket *bucket)
{
    if (bucket == NULL || atomic_fetch_sub(&bucket->owners, 1) != 1) return;
    free(bucket->bindings);
    free(bucket->by_id.slots);
    free(bucket->first_of.slots);
    free(bucket->first_of_key.slots);
    free(bucket);
}
